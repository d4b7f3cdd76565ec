# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""What every typed value can do, and how a wrong one is refused."""

from __future__ import annotations

from typing import Any, List


class ValueRefused(ValueError):
    """A value that does not fit its type: what was found, what is wanted, what to do."""

    def __init__(self, found: str, wanted: str, do: str = "") -> None:
        self.found = found
        self.wanted = wanted
        self.do = do
        super().__init__("found %s; wanted %s%s" % (found, wanted, ". " + do if do else ""))


class Surprise:
    """A plain YAML scalar that does not mean what it looks like (`on`, `0755`, `2.10`, `1_000`).

    The profile reader keeps the text beside what YAML 1.1 makes of it, so that a type can refuse it and say
    so. It is no text on purpose: code that does not know it takes it for a wrong type, never for a value.
    """

    def __init__(self, text: str, reads_as: object) -> None:
        self.text = text
        self.reads_as = reads_as

    def __repr__(self) -> str:
        return self.text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Surprise) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)


def found_text(raw: object) -> str:
    """Return a raw YAML value as a person would name it, with its kind where the kind is the mistake."""
    if isinstance(raw, Surprise):
        word = isinstance(raw.reads_as, bool)
        return "%s (without quotes YAML reads this as the %s %s)" % (
            raw.text, "yes/no value" if word else "number", str(raw.reads_as).lower())
    if isinstance(raw, bool):
        return "%s (a yes/no value)" % str(raw).lower()
    if isinstance(raw, str):
        return '"%s"' % raw
    if isinstance(raw, dict):
        return "a mapping (%s)" % ", ".join(str(key) for key in raw)
    if isinstance(raw, (list, tuple)):
        return "a list (%s)" % ", ".join(str(item) for item in raw)
    return "nothing" if raw is None else "the number %r" % (raw,)


class ValueType:
    """A kind of value with one normal form; equal settings have equal normal forms.

    A normal form is JSON-able data. None is "absent", which is never the same as 0.
    """

    name = "value"
    #: May be used with at_least and at_most.
    ordered = False

    def wanted(self) -> str:
        """Return in words what this type accepts."""
        raise NotImplementedError

    def parse(self, raw: object) -> Any:
        """Return the normal form of a YAML or module value; raises ValueRefused."""
        raise NotImplementedError

    def equal(self, left: Any, right: Any) -> bool:
        """Say whether two normal forms mean the same setting."""
        return bool(left == right)

    def show(self, normal: Any) -> str:
        """Return a normal form as text for people."""
        return "absent" if normal is None else str(normal)

    def from_config(self, values: List[str]) -> Any | None:
        """Return the normal form of a cn=config attribute's values; no values give None.

        A server may hold what a profile may not ask for, so no range is checked here.
        """
        raise NotImplementedError

    def to_config(self, normal: Any) -> List[str]:
        """Return the attribute values to write; none means that the attribute is removed."""
        raise NotImplementedError

    def refuse(self, raw: object, do: str = "") -> ValueRefused:
        """Return the refusal of a raw value, with a hint of its own for YAML's surprises."""
        if isinstance(raw, Surprise) and not do:
            if isinstance(raw.reads_as, bool):
                do = 'Quote it ("%s") if the word is meant, or write true or false' % raw.text
            else:
                do = 'Quote it ("%s") if the text is meant, or write %r if the number is' % (raw.text, raw.reads_as)
        elif isinstance(raw, bool) and not do:
            do = "A plain yes, no, on or off is a yes/no value in YAML: quote it if the word is meant"
        return ValueRefused(found_text(raw), self.wanted(), do)
