# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The command `authrate`: arguments, table, files, exit code."""

from __future__ import annotations

import argparse
import csv
import json
import os
import sys
from typing import Any, Dict, List, Sequence, TextIO, Tuple

from ..problems import LdaptuneError
from .compose import AUTHS, SCOPES, WORKLOADS
from .generator_run import Times as Brief
from .generator_run import run_checked
from .phase import merge_rows
from .prepare import Ready, Settings, prepare
from .ramp import Rules
from .ramp_run import Times, run_ramp
from .run import run
from .summary import counts_text, duration, phase_text

PASSWORD_VARIABLE = "AUTHRATE_PASSWORD"  # noqa: S105 - the variable's name
DONE, USAGE, NOT_MEASURED, FAILURES, INVALID, INTERRUPTED = 0, 2, 3, 4, 5, 130
CSV_FIGURES = ("errors", "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns")
CSV_COLUMNS = ("phase", "second", "attempts", "goodput", *CSV_FIGURES, "codes")
HEADER_EVERY = 20

DESCRIPTION = "Load an LDAP server with binds and searches, and measure rate and latency."
EPILOG = """\
examples:
  How many logins a second can this server do with 16 clients?
    authrate --uri ldaps://ldap.example.com --accounts 'uid=user.[0-9999],ou=people,dc=example,dc=com' \\
             --password-file passwords --connections 16 --seconds 30
  How long does a login take at 2,000 a second? (latency counts from the planned time)
    authrate --uri ldapi:/// --accounts 'uid=user.[0-9999],ou=people,dc=example,dc=com' \\
             --password-file passwords --rate 2000
  At which rate does it begin to wait? (three rates of 30 s each, one line each)
    authrate --uri ldapi:/// --accounts 'uid=user.[0-9999],ou=people,dc=example,dc=com' \\
             --password-file passwords --schedule 1000:30,2000:30,4000:30
  Searches as one user, figures for other programs:
    AUTHRATE_PASSWORD=... authrate --uri ldap://localhost --workload search \\
             --bind-dn cn=reader,dc=example,dc=com --accounts 'uid=user.[0-9999],ou=people,dc=example,dc=com' \\
             --filter '(uid={user})' --json result.json --csv seconds.csv
  With how many clients does it do the most? (doubles them up to 128, then measures the best ones again)
    authrate --uri ldapi:/// --accounts 'uid=user.[0-9999],ou=people,dc=example,dc=com' \\
             --password-file passwords --prime 30 --ramp 128

accounts:
  [0-9999] draws at random, [0:9999] goes in order, [0000-9999] keeps four digits. Without --accounts, the DNs are those
  of the password file's rows (DN, tab, password). A file of one line is the password of all accounts.
  The password comes from --password-file or the variable AUTHRATE_PASSWORD, never from an argument.

exit codes:
  0  measured; every operation succeeded
  2  wrong arguments or a file that cannot be written, nothing was sent
  3  nothing was measured: no connection, or an account of the sample was refused
  4  measured; some operations failed or connections were lost
  5  the figures cannot be used: the generator was the limit, or one of its processes died
  130  interrupted; what was measured until then is shown

Only load servers that are yours, and tell the people who watch their logs: this looks like a brute-force attack.
"""


def shares(text: str) -> Dict[str, float]:
    """Read `name=number,name=number`; raises argparse.ArgumentTypeError."""
    found: Dict[str, float] = {}
    for part in text.split(","):
        name, equals, number = part.partition("=")
        try:
            found[name.strip()] = float(number)
        except ValueError:
            equals = ""
        if not equals:
            raise argparse.ArgumentTypeError("not name=number, separated by commas: %s" % text)
    return found


def steps(text: str) -> List[Tuple[float, float]]:
    """Read `rate:seconds,rate:seconds`; raises argparse.ArgumentTypeError."""
    found: List[Tuple[float, float]] = []
    for part in text.split(","):
        rate, colon, seconds = part.partition(":")
        try:
            found.append((float(rate), float(seconds)))
        except ValueError:
            colon = ""
        if not colon:
            raise argparse.ArgumentTypeError("not rate:seconds, separated by commas: %s" % text)
    return found


def arguments() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="authrate",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    server = parser.add_argument_group("server")
    server.add_argument("--uri", required=True, help="ldap://host:port, ldaps://host:port or ldapi://%%2Fpath")
    server.add_argument("--starttls", action="store_true", help="ask for TLS first; end if it is refused")
    server.add_argument("--ca-file", default="", metavar="FILE", help="certificates of the authorities to trust")
    server.add_argument("--cert-file", default="", metavar="FILE", help="certificate to show (SASL EXTERNAL)")
    server.add_argument("--key-file", default="", metavar="FILE", help="its key, where it is not in the same file")
    server.add_argument("--insecure", action="store_true", help="do not verify the server's certificate")
    server.add_argument("--allow-cleartext", action="store_true", help="send passwords without TLS to another host")
    server.add_argument("--timeout", type=float, default=5.0, metavar="S", help="for an answer (default 5)")
    load = parser.add_argument_group("load")
    load.add_argument("--accounts", default="", metavar="PATTERN", help="DNs, such as uid=user.[0-9999],ou=people,...")
    load.add_argument("--password-file", default="", metavar="FILE", help="one password, or rows of DN, tab, password")
    load.add_argument("--workload", choices=WORKLOADS, default="bind", help="what is sent (default bind)")
    load.add_argument("--mix", default={}, type=shares, metavar="SHARES", help="for mixed: bind=70,search=30")
    load.add_argument("--fail", default={}, type=shares, metavar="SHARES",
                      help="failures on purpose in percent: wrong_password=5,unknown_user=2,no_entry=1")
    load.add_argument("--auth", choices=AUTHS, default="simple", help="simple, or SASL plain or external")
    load.add_argument("--auth-id", default="{user}", metavar="TEXT",
                      help="identity of SASL PLAIN with {user} or {dn} (default {user})")
    load.add_argument("--base", default="", help="search base (default: the account's parent)")
    load.add_argument("--filter", default="", help="search filter with {user} or {dn} (default: the account's RDN)")
    load.add_argument("--scope", choices=SCOPES, default="sub", help="search scope (default sub)")
    load.add_argument("--entries", type=int, default=-1, metavar="N",
                      help="a search must give N entries (default: the account's entry)")
    load.add_argument("--attribute", action="append", metavar="NAME", help="attribute to ask for (default: none)")
    load.add_argument("--bind-dn", default="", metavar="DN", help="who searches (default: the first account)")
    load.add_argument("--window", type=int, default=1, metavar="N", help="searches outstanding on a connection (1)")
    load.add_argument("--think", type=float, default=0.0, metavar="S", help="seconds of rest after an answer (0)")
    load.add_argument("--page-size", type=int, default=500, metavar="N", help="entries a page of paged_search (500)")
    load.add_argument("--connections", type=int, default=16, metavar="N", help="connections (default 16)")
    load.add_argument("--processes", type=int, default=0, metavar="N", help="processes (default: one for four CPUs)")
    load.add_argument("--seed", default="1", help="the same seed draws the same accounts (default 1)")
    load.add_argument(
        "--ramp", type=int, default=0, metavar="MAX", help="find the best number of connections up to MAX"
    )
    load.add_argument("--max-p99", type=float, default=0.0, metavar="MS", help="end a ramp where p99 is above MS ms")
    load.add_argument("--check-generator", action="store_true", help="find out whether the generator was the limit")
    time = parser.add_argument_group("time")
    time.add_argument("--sample", type=int, default=10, metavar="N", help="accounts tried before the load (default 10)")
    time.add_argument("--prime", type=float, default=0.0, metavar="S", help="first use every account once, at most S s")
    time.add_argument("--warmup", type=float, metavar="S", help="seconds before the measured ones (2; of a ramp 5)")
    time.add_argument("--seconds", type=float, default=10.0, metavar="S", help="measured seconds (10), in a ramp each")
    time.add_argument("--rate", type=float, default=0.0, metavar="R", help="operations a second instead of all it can")
    time.add_argument("--schedule", default=[], type=steps, metavar="STEPS",
                      help="several rates one after the other, as rate:seconds,... (500:30,1000:30,2000:30)")
    output = parser.add_argument_group("output")
    output.add_argument("--json", default="", metavar="FILE", help="write the whole result; - is standard output")
    output.add_argument("--csv", default="", metavar="FILE", help="write a row a second; - is standard output")
    output.add_argument("--quiet", action="store_true", help="no table while it runs")
    return parser


def warmup_of(given: argparse.Namespace) -> float:
    """Return the seconds before the measured ones."""
    return float((5.0 if given.ramp else 2.0) if given.warmup is None else given.warmup)


def settings_of(given: argparse.Namespace) -> Settings:
    """Return the run that the command line asks for."""
    phases: List[Dict[str, Any]] = []
    if given.prime > 0:
        phases.append({"name": "prime", "mode": "pass", "seconds": given.prime, "rate": 0})
    rate = given.schedule[0][0] if given.schedule else given.rate
    mode = "open" if given.rate or given.schedule else "closed"
    if warmup_of(given) > 0:
        phases.append({"name": "settle", "mode": mode, "seconds": warmup_of(given), "rate": rate})
    for number, (offered, seconds) in enumerate(given.schedule, 1):
        name = "step %d at %g/s" % (number, offered)
        phases.append({"name": name, "mode": mode, "seconds": seconds, "rate": offered})
    if not given.schedule:
        phases.append({"name": "goal", "mode": mode, "seconds": given.seconds, "rate": rate})
    password = None
    if not given.password_file and PASSWORD_VARIABLE in os.environ:
        password = os.environb[PASSWORD_VARIABLE.encode()]
    return Settings(
        uri=given.uri,
        accounts=given.accounts,
        password_file=given.password_file,
        password=password,
        workload=given.workload,
        auth=given.auth,
        auth_id=given.auth_id,
        mix=given.mix,
        fail=given.fail,
        scope=given.scope,
        window=given.window,
        think=given.think,
        page_size=given.page_size,
        entries=given.entries,
        cert_file=given.cert_file,
        key_file=given.key_file,
        base=given.base,
        filter=given.filter,
        attributes=given.attribute or ["1.1"],
        bind_dn=given.bind_dn,
        connections=given.ramp or given.connections,
        processes=given.processes,
        seed=given.seed,
        phases=phases,
        sample=given.sample,
        ca_file=given.ca_file,
        starttls=given.starttls,
        insecure=given.insecure,
        timeout=given.timeout,
        allow_cleartext=given.allow_cleartext,
    )


class Table:
    """A row a second while it runs: columns under a header on a terminal, plain lines elsewhere."""

    COLUMNS = (("phase", 8), ("second", 6), ("clients", 7), ("attempts/s", 10), ("goodput/s", 10), ("errors/s", 8))
    TIMES = (("p50", 8), ("p99", 8), ("max", 8))

    def __init__(self, out: TextIO, clients: int) -> None:
        self.out = out
        self.clients = clients
        self.columns = out.isatty()
        self.rows = 0

    def show(self, spec: Dict[str, Any], rows: List[Dict[str, Any]]) -> None:
        """Show one second of one phase, from the rows of all processes."""
        row = merge_rows(rows)
        times = [duration(row[name + "_ns"]) for name, _ in self.TIMES]
        figures = [spec["name"], row["second"] + 1, self.clients, row["operations"], row["successes"], row["errors"]]
        if self.columns:
            self._columns(figures + times)
        else:
            text = "%s second %d: %d clients, %d attempts, %d successes, %d errors, p50 %s, p99 %s, max %s"
            self.out.write(text % tuple(figures + times) + self._why(row) + "\n")
        self.rows += 1
        self.out.flush()

    def _columns(self, values: List[Any]) -> None:
        widths = [width for _, width in self.COLUMNS + self.TIMES]
        if self.rows % HEADER_EVERY == 0:
            head = " ".join(name.rjust(width) for name, width in self.COLUMNS + self.TIMES)
            self.out.write("\033[1m%s\033[0m\n" % head)
        self.out.write(" ".join(str(value).rjust(width) for value, width in zip(values, widths)) + "\n")

    @staticmethod
    def _why(row: Dict[str, Any]) -> str:
        return " (%s)" % counts_text(row) if row["errors"] else ""


def write_csv(out: TextIO, result: Dict[str, Any]) -> None:
    """Write a row a second; the last of a phase may be a part of a second."""
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(CSV_COLUMNS)
    for name, phase in result["phases"].items():
        for row in phase["series"]:
            codes = " ".join("%s=%d" % pair for pair in sorted({**row["codes"], **row["failures"]}.items()))
            figures = [row[column] for column in CSV_FIGURES]
            writer.writerow([name, row["second"], row["operations"], row["successes"], *figures, codes])


def exit_code(result: Dict[str, Any]) -> int:
    """Return what the command ends with."""
    if result["interrupted"]:
        return INTERRUPTED
    if "worker_died" in result or result["limited_by"] == "generator_limited":
        return INVALID
    for phase in [*result["phases"].values(), *result.get("ramp", {}).get("measurements", [])]:
        if "failed" in phase or phase["errors"] or phase["failures"] or phase["connections_lost"] or phase["cut_short"]:
            return FAILURES
    return DONE


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit code."""
    parser = arguments()
    given = parser.parse_args(argv)
    if given.check_generator and (given.ramp or given.rate):
        parser.error("--check-generator goes with neither --ramp nor --rate")
    if given.ramp and given.rate:
        parser.error("--ramp finds a rate, so it goes without --rate")
    if given.schedule and (given.rate or given.ramp or given.check_generator):
        parser.error("--schedule has the rates itself; it goes with none of --rate, --ramp, --check-generator")
    if given.ramp and given.csv:
        parser.error("--ramp has no rows of seconds for --csv; --json has its figures")
    out = sys.stderr if "-" in (given.json, given.csv) else sys.stdout
    try:
        ready = prepare(settings_of(given))
    except LdaptuneError as error:
        print("authrate: %s" % error, file=sys.stderr)
        return USAGE
    for path in (given.json, given.csv):
        try:
            _write(path, lambda file: None, "a")
        except OSError as error:
            print("authrate: cannot write %s: %s" % (error.filename, error.strerror), file=sys.stderr)
            return USAGE
    try:
        result = _measured(given, ready, out)
    except LdaptuneError as error:
        print("authrate: %s" % error, file=sys.stderr)
        return NOT_MEASURED
    for name, phase in result["phases"].items():
        print(phase_text(name, phase), file=out)
    for item in result["remarks"]:
        print("%(what)s, %(count)d times: %(text)s" % item, file=out)
    print("%s: %s" % (result["limited_by"].replace("_", " "), result["limited_why"]), file=out)
    if given.ramp:
        print(result["line"], file=out)
    try:
        _write(given.json, lambda file: file.write(json.dumps(result, indent=1, allow_nan=False) + "\n"))
        _write(given.csv, lambda file: write_csv(file, result))
    except OSError as error:
        print("authrate: cannot write %s: %s" % (error.filename, error.strerror), file=sys.stderr)
        return USAGE
    return exit_code(result)


def _measured(given: argparse.Namespace, ready: Ready, out: TextIO) -> Dict[str, Any]:
    """Do what the command line asks for."""
    tell = None if given.quiet else lambda line: print(line, file=out, flush=True)
    if given.ramp:
        rules = Rules(given.ramp, given.seed, p99_ns=given.max_p99 * 1e6)
        times = Times(given.prime, warmup_of(given), given.seconds)
        return run_ramp(ready, rules, times, tell)
    table = None if given.quiet else Table(out, given.connections).show
    if given.check_generator:
        # the short runs are no longer than the real one
        return run_checked(ready, table, tell, Brief(min(warmup_of(given), 1.0), min(given.seconds, 3.0)))
    return run(ready, table)


def _write(path: str, act: Any, mode: str = "w") -> None:
    if path == "-":
        act(sys.stdout)
    elif path:
        with open(path, mode, encoding="utf-8", newline="") as file:
            act(file)
