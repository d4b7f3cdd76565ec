#!/usr/bin/env python3
# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""Three directory hosts and a load generator with real systemd, sshd and slapd, in namespaces of this machine.

    bed.py up | down | clean | ssh HOST [COMMAND...]

`up` prints where the inventory lies. Hosts are systemd-nspawn containers over one Debian 12 tree, each with a network
namespace of its own on a bridge that nothing else is connected to. Needs root; what a host of the bed cannot show is in
README.md beside this file.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve()
CHECKOUT = HERE.parents[3]
sys.path.insert(0, str(CHECKOUT / "module_utils"))

from ldaptune.lab.config import ConfigSpec, config_ldif  # noqa: E402
from ldaptune.lab.users import accounts_pattern, directory_ldif  # noqa: E402

DIRECTORIES = ("dir1", "dir2", "dir3")
GENERATOR = "gen1"
HOSTS = (*DIRECTORIES, GENERATOR)
SUFFIX = "dc=bed,dc=test"
USERS = 2000
NETWORK = "ldaptune-bed"
ADDRESSES = {name: "10.213.0.%d" % (11 + number) for number, name in enumerate(HOSTS)}
ROOT = Path(os.environ.get("LDAPTUNE_BED", "/var/tmp/ldaptune-bed"))  # noqa: S108 - made private below
# Programs of this machine, each with its package.
TOOLS = {
    "systemd-nspawn": "systemd-container", "mmdebstrap": "mmdebstrap", "ip": "iproute2", "ssh": "openssh-client",
}  # fmt: skip
PACKAGES = (
    "systemd", "systemd-sysv", "dbus", "openssh-server", "python3", "python3-ldap3", "python3-psutil", "slapd",
    "ldap-utils", "iproute2", "procps",
)  # fmt: skip
# Whoever reboots inside ends systemd-nspawn with this code.
REBOOTED = 133
UNWANTED = ("apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer",
            "systemd-networkd.service", "systemd-resolved.service")  # fmt: skip
BOOT_SECONDS = 90
STOP_SECONDS = 20


class Failed(Exception):
    """The bed cannot be made here; the text says why."""


def run(*command: object, check: bool = True, **options) -> subprocess.CompletedProcess:
    """Run a command quietly; raises Failed with its last words."""
    words, quiet = [str(word) for word in command], subprocess.DEVNULL
    done = subprocess.run(words, capture_output=True, text=True, check=False, stdin=quiet, **options)
    if check and done.returncode != 0:
        raise Failed("%s: %s" % (" ".join(map(str, command[:4])), (done.stderr or done.stdout).strip()[-1000:]))
    return done


def install_tools() -> None:
    """Install with apt what this machine lacks."""
    if os.geteuid() != 0:
        raise Failed("the bed needs root (namespaces, mounts)")
    missing = sorted(package for tool, package in TOOLS.items() if not shutil.which(tool))
    if missing:
        print("Installing with apt: " + " ".join(missing), flush=True)
        run("apt-get", "install", "-q", "-y", "--no-install-recommends", *missing)


def digest() -> str:
    """Return what the tree is made from, in short."""
    parts = [" ".join(PACKAGES), SUFFIX, str(USERS), inspect.getsource(furnish)]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:12]


def tree() -> Path:
    """Return the Debian tree that all hosts begin with, made once."""
    made = ROOT / ("tree-" + digest())
    if made.is_dir():
        return made
    print("Making a Debian 12 tree in %s" % made, flush=True)
    ROOT.mkdir(mode=0o755, exist_ok=True)
    for old in ROOT.glob("tree-*"):
        shutil.rmtree(old)
    raw = ROOT / "making"
    shutil.rmtree(raw, ignore_errors=True)
    listed = run("apt-get", "indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Codename: bookworm")
    mirror = listed.stdout.split()[:1]
    options = ["--dpkgopt=force-unsafe-io", "--dpkgopt=path-exclude=/usr/share/doc/*",
               "--dpkgopt=path-exclude=/usr/share/man/*", "--dpkgopt=path-exclude=/usr/share/locale/*"]  # fmt: skip
    run("mmdebstrap", "--variant=minbase", "--include=" + ",".join(PACKAGES), *options, "bookworm", raw, *mirror)
    furnish(raw)
    raw.rename(made)
    return made


def furnish(root: Path) -> None:
    """Put keys, directory and accounts into a fresh tree."""
    for unit in UNWANTED:
        (root / "etc/systemd/system" / unit).symlink_to("/dev/null")
    (root / "etc/machine-id").write_text("")
    (root / "etc/hosts").write_text("127.0.0.1 localhost\n")
    for key in (root / "etc/ssh").glob("ssh_host_*"):
        key.unlink()
    run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", root / "etc/ssh/ssh_host_ed25519_key")
    password = secrets.token_urlsafe(18)
    private(root / "root/password", password + "\n")
    spec = ConfigSpec("/BED", SUFFIX, "", "stats", 0, 1 << 30, secrets.token_urlsafe(18), "", True, (), (), (), ())
    config = config_ldif(spec).replace("/BED/run/slapd", "/run/slapd").replace("/BED/db", "/var/lib/ldap")
    for name in ("etc/ldap/slapd.d", "var/lib/ldap"):
        shutil.rmtree(root / name)
        (root / name).mkdir(mode=0o755)
    private(root / "root/config.ldif", config)
    private(root / "root/data.ldif", "".join(directory_ldif(SUFFIX, USERS, password)))
    run("chroot", root, "slapadd", "-n0", "-F", "/etc/ldap/slapd.d", "-l", "/root/config.ldif")
    run("chroot", root, "slapadd", "-q", "-n1", "-F", "/etc/ldap/slapd.d", "-l", "/root/data.ldif")
    run("chroot", root, "chown", "-R", "openldap:openldap", "/etc/ldap/slapd.d", "/var/lib/ldap")
    for name in ("config.ldif", "data.ldif"):
        (root / "root" / name).unlink()


def private(path: Path, text: str) -> None:
    """Write a file that nobody else may read."""
    path.unlink(missing_ok=True)
    path.touch(mode=0o600)
    path.write_text(text, encoding="utf-8")


class Bed:
    """The running hosts; everything of theirs lies in `ROOT/run` and goes with it."""

    def __init__(self) -> None:
        self.run = ROOT / "run"
        self.inventory = self.run / "inventory"
        self.key = self.run / "id"

    def up(self) -> Path:
        """Start what is not running; return the inventory's folder."""
        install_tools()
        base = tree()
        self.run.mkdir(mode=0o700, exist_ok=True)
        if not self.key.exists():
            run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.key)
        self._network()
        for name in HOSTS:
            if not self._alive(name):
                self._start(name, base)
        self._inventory(base)
        for name in HOSTS:
            self.wait(name)
        return self.inventory

    def down(self) -> None:
        """End all hosts and remove what they were made of; the tree stays."""
        for name in HOSTS:
            if self._alive(name):
                os.kill(self._pid(name), signal.SIGTERM)
        for name in HOSTS:
            deadline = time.monotonic() + STOP_SECONDS
            while self._alive(name) and time.monotonic() < deadline:
                time.sleep(0.1)
            if self._alive(name):
                os.killpg(self._pid(name), signal.SIGKILL)
                time.sleep(0.5)
            run("umount", self.run / name / "root", check=False)
            run("ip", "netns", "del", "%s-%s" % (NETWORK, name), check=False)
        run("ip", "netns", "del", NETWORK, check=False)
        if any(os.path.ismount(self.run / name / "root") for name in HOSTS):
            raise Failed("a host's root is still mounted below %s" % self.run)
        shutil.rmtree(self.run, ignore_errors=True)

    def ssh(self, name: str, *command: str, check: bool = True) -> subprocess.CompletedProcess:
        """Run a command line on a host as root."""
        return run(self.run / "ssh", *self._options(), "root@" + ADDRESSES[name], *command, check=check)

    def wait(self, name: str) -> None:
        """Wait until a host answers over ssh and its services run."""
        wanted = "systemctl is-active ssh" + (" slapd" if name in DIRECTORIES else "")
        deadline = time.monotonic() + BOOT_SECONDS
        while self.ssh(name, wanted, check=False).returncode != 0:
            if time.monotonic() > deadline:
                log = (self.run / name / "log").read_text(errors="replace")[-1500:]
                raise Failed("%s did not come up within %d s: %s" % (name, BOOT_SECONDS, log))
            time.sleep(0.3)

    def reboot(self, name: str) -> None:
        """Reboot a host as its owner would, and wait until it is back."""
        booted = "systemctl show -p UserspaceTimestampMonotonic --value"
        before = self.ssh(name, booted).stdout
        self.ssh(name, "systemctl reboot", check=False)
        deadline = time.monotonic() + BOOT_SECONDS
        while time.monotonic() < deadline:
            now = self.ssh(name, booted, check=False)
            if now.returncode == 0 and now.stdout != before:
                self.wait(name)
                return
            time.sleep(0.3)
        raise Failed("%s did not reboot" % name)

    def _options(self) -> list[str]:
        silent = ["-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR"]
        return ["-i", str(self.key), *silent, "-o", "BatchMode=yes", "-o", "ConnectTimeout=3"]

    def _pid(self, name: str) -> int:
        try:
            return int((self.run / name / "pid").read_text())
        except (OSError, ValueError):
            return 0

    def _alive(self, name: str) -> bool:
        """Return whether a host's keeper runs; another process may have got its number."""
        try:
            line = Path("/proc/%d/cmdline" % self._pid(name)).read_bytes().split(b"\0")
        except OSError:
            return False
        return line[-3:-1] == [b"keep", name.encode()]

    def _network(self) -> None:
        if run("ip", "-n", NETWORK, "link", "show", "br0", check=False).returncode == 0:
            return
        run("ip", "netns", "add", NETWORK)
        bridge = ("link set lo up", "link add br0 type bridge", "addr add 10.213.0.1/24 dev br0", "link set br0 up")
        for words in bridge:
            run("ip", "-n", NETWORK, *words.split())

    def _start(self, name: str, base: Path) -> None:
        folder, space = self.run / name, "%s-%s" % (NETWORK, name)
        root = folder / "root"
        for part in ("upper", "work", "root"):
            (folder / part).mkdir(parents=True, exist_ok=True)
        if not os.path.ismount(root):
            over = "lowerdir=%s,upperdir=%s,workdir=%s" % (base, folder / "upper", folder / "work")
            run("mount", "-t", "overlay", "overlay", "-o", over, root)
        (root / "etc/hostname").write_text(name + "\n")
        (root / "root/.ssh").mkdir(mode=0o700, exist_ok=True)
        private(root / "root/.ssh/authorized_keys", self.key.with_suffix(".pub").read_text())
        if name == GENERATOR:
            (root / "etc/systemd/system/slapd.service").unlink(missing_ok=True)
            (root / "etc/systemd/system/slapd.service").symlink_to("/dev/null")
        if run("ip", "netns", "pids", space, check=False).returncode != 0:
            run("ip", "netns", "add", space)
            pair = "v" + name
            run("ip", "-n", NETWORK, "link", "add", pair, "type", "veth", "peer", "name", "eth0", "netns", space)
            run("ip", "-n", NETWORK, "link", "set", pair, "master", "br0", "up")
            for words in ("link set lo up", "addr add %s/24 dev eth0" % ADDRESSES[name], "link set eth0 up"):
                run("ip", "-n", space, *words.split())
        with open(folder / "log", "ab") as log:
            keeper = subprocess.Popen(
                [sys.executable, str(HERE), "keep", name],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        (folder / "pid").write_text("%d" % keeper.pid)

    def _inventory(self, base: Path) -> None:
        secret = self.run / "password"
        private(secret, (base / "root/password").read_text())
        wrapper = self.run / "ssh"
        wrapper.write_text('#!/bin/sh\nexec ip netns exec %s ssh "$@"\n' % NETWORK)
        wrapper.chmod(0o700)
        hosts = {name: "    %s:\n      ansible_host: %s\n" % (name, ADDRESSES[name]) for name in HOSTS}
        text = "---\nldaphosts:\n  hosts:\n" + "".join(hosts[name] for name in DIRECTORIES)
        text += "load_generators:\n  hosts:\n" + hosts[GENERATOR]
        (self.inventory / "group_vars").mkdir(parents=True, exist_ok=True)
        (self.inventory / "hosts.yml").write_text(text)
        arguments = " ".join(self._options())
        (self.inventory / "group_vars/all.yml").write_text(
            "---\nansible_user: root\nansible_python_interpreter: /usr/bin/python3\nansible_ssh_executable: %s\n"
            "ansible_ssh_common_args: %s\n" % (wrapper, arguments)
        )
        (self.inventory / "group_vars/ldaphosts.yml").write_text(
            "---\ntuning_profile: throughput\ntuning_consent: [security, availability]\ntuning_schedule: quick\n"
            "authrate_allow_load: true\n# The bed's bridge leads nowhere else.\nauthrate_allow_cleartext: true\n"
            'authrate_uri: "ldap://{{ ansible_host }}"\nauthrate_accounts: %s\nauthrate_password_file: %s\n'
            % (accounts_pattern(USERS, SUFFIX), secret)
        )


def keep(name: str) -> int:
    """Run one host until it is stopped; start it again when it reboots. This process leads the host's own group."""
    # With --keep-unit the host's units lie below our control group: without one of its own, hosts would share theirs.
    for top in ("/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified", "/sys/fs/cgroup"):
        if os.path.exists(top + "/cgroup.procs"):
            group = Path(top, "%s-%s" % (NETWORK, name))
            group.mkdir(exist_ok=True)
            (group / "cgroup.procs").write_text("%d" % os.getpid())
    command = [
        "systemd-nspawn", "--quiet", "--boot", "--register=no", "--keep-unit", "--capability=all", "--console=pipe",
        "--machine=" + name, "--directory=%s" % (ROOT / "run" / name / "root"),
        "--network-namespace-path=/run/netns/%s-%s" % (NETWORK, name),
    ]  # fmt: skip
    environment = {**os.environ, "SYSTEMD_NSPAWN_API_VFS_WRITABLE": "network"}
    asked: list[int] = []
    while not asked:
        host = subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment)

        def stop(*_unused: object, host: subprocess.Popen = host) -> None:
            asked.append(1)
            host.terminate()

        signal.signal(signal.SIGTERM, stop)
        code = host.wait()
        if code != REBOOTED:
            return code
    return 0


def main(words: list[str]) -> int:
    """Do what the command line says."""
    bed = Bed()
    try:
        if words == ["up"]:
            inventory = bed.up()
            print("The bed is up: ansible-playbook -i %s tune.yml -l ldaphosts" % inventory)
        elif words == ["down"]:
            bed.down()
            print("The bed is down; its Debian tree stays in %s (bed.py clean removes it)." % ROOT)
        elif words == ["clean"]:
            bed.down()
            shutil.rmtree(ROOT, ignore_errors=True)
        elif words[:1] == ["keep"]:
            return keep(words[1])
        elif words[:1] == ["ssh"] and len(words) > 1:
            line = [str(bed.run / "ssh"), *bed._options(), "root@" + ADDRESSES[words[1]], *words[2:]]
            return subprocess.run(line, check=False).returncode
        else:
            print(__doc__.strip())
            return 2
    except Failed as failed:
        print("bed: %s" % failed, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
