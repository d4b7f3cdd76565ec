# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""LDAP messages as bytes: the parts of RFC 4511 that a probe needs, and BER beneath them.

Requests are encoded once and kept in two halves around the message id (see `Request`), so that sending costs a
concatenation. Answers are cut from the stream by `cut` and read by `message` and the functions below it.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Sequence, Tuple

BIND_REQUEST, BIND_RESPONSE = 0x60, 0x61
UNBIND_REQUEST = 0x42
SEARCH_REQUEST, SEARCH_ENTRY, SEARCH_DONE, SEARCH_REFERENCE = 0x63, 0x64, 0x65, 0x73
EXTENDED_REQUEST, EXTENDED_RESPONSE = 0x77, 0x78

CONTROLS = 0xA0
PAGED_RESULTS_OID = b"1.2.840.113556.1.4.319"
PASSWORD_POLICY_OID = b"1.3.6.1.4.1.42.2.27.8.5.1"
PASSWORD_EXPIRED_OID = b"2.16.840.1.113730.3.4.4"
CHANGE_AFTER_RESET = 2
STARTTLS_OID = b"1.3.6.1.4.1.1466.20037"
NOTICE_OF_DISCONNECTION_OID = b"1.3.6.1.4.1.1466.20036"

# An answer to one of our requests is some hundred bytes; a longer one is a broken length, not an answer.
MAX_MESSAGE = 4 * 1024 * 1024
MAX_MESSAGE_ID = 2147483647

# RFC 4511, section 4.1.9
RESULT_NAMES = {
    0: "success",
    1: "operationsError",
    2: "protocolError",
    3: "timeLimitExceeded",
    4: "sizeLimitExceeded",
    5: "compareFalse",
    6: "compareTrue",
    7: "authMethodNotSupported",
    8: "strongerAuthRequired",
    10: "referral",
    11: "adminLimitExceeded",
    12: "unavailableCriticalExtension",
    13: "confidentialityRequired",
    14: "saslBindInProgress",
    16: "noSuchAttribute",
    17: "undefinedAttributeType",
    18: "inappropriateMatching",
    19: "constraintViolation",
    20: "attributeOrValueExists",
    21: "invalidAttributeSyntax",
    32: "noSuchObject",
    33: "aliasProblem",
    34: "invalidDNSyntax",
    36: "aliasDereferencingProblem",
    48: "inappropriateAuthentication",
    49: "invalidCredentials",
    50: "insufficientAccessRights",
    51: "busy",
    52: "unavailable",
    53: "unwillingToPerform",
    54: "loopDetect",
    64: "namingViolation",
    65: "objectClassViolation",
    66: "notAllowedOnNonLeaf",
    67: "notAllowedOnRDN",
    68: "entryAlreadyExists",
    69: "objectClassModsProhibited",
    71: "affectsMultipleDSAs",
    80: "other",
}


def result_name(code: int) -> str:
    """Return the RFC 4511 name of a result code; a code without one reads `code 123`."""
    return RESULT_NAMES.get(code, "code %d" % code)


class DecodeError(ValueError):
    """Bytes from the server that are no LDAP message."""


class Request(NamedTuple):
    """A request without its message id: `head + id + tail` is what goes on the wire.

    `head` ends with the id's tag and a length of three, so ids are those of `three_byte_id`.
    """

    head: bytes
    tail: bytes


class Message(NamedTuple):
    """One answer: message id, protocol operation tag, the operation's content, that of the controls behind it."""

    id: int
    tag: int
    body: bytes
    controls: bytes = b""


class Result(NamedTuple):
    """The fields of an LDAPResult that are read here."""

    code: int
    text: str
    referrals: Tuple[str, ...]


def length(count: int) -> bytes:
    """Return a BER definite length in its shortest form."""
    if count < 128:
        return bytes((count,))
    octets = count.to_bytes((count.bit_length() + 7) // 8, "big")
    return bytes((0x80 | len(octets),)) + octets


def tlv(tag: int, content: bytes) -> bytes:
    """Return one BER element."""
    return bytes((tag,)) + length(len(content)) + content


def integer(value: int, tag: int = 0x02) -> bytes:
    """Return a BER integer, with the sign octet where the top bit is set: 128 is 02 02 00 80."""
    return tlv(tag, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


def octets(value: bytes) -> bytes:
    """Return a BER octet string."""
    return tlv(0x04, value)


def envelope(message_id: int, operation: bytes, asked: bytes = b"") -> bytes:
    """Return a whole LDAPMessage, with controls where they are given."""
    return tlv(0x30, integer(message_id) + operation + asked)


def three_byte_id(message_id: int) -> bytes:
    """Return the content octets of an id between 32768 and 8388607: always three, so requests keep their length."""
    if not 32768 <= message_id <= 8388607:
        raise ValueError("a message id of three octets lies between 32768 and 8388607")
    return message_id.to_bytes(3, "big")


def request(operation: bytes, controls: bytes = b"") -> Request:
    """Return the operation, with its controls, ready for many message ids."""
    return Request(b"\x30" + length(5 + len(operation) + len(controls)) + b"\x02\x03", operation + controls)


def paged_results(size: int, cookie: bytes) -> bytes:
    """Return the controls of a message that asks for one page (RFC 2696), critical."""
    value = tlv(0x30, integer(size) + octets(cookie))
    return tlv(CONTROLS, tlv(0x30, octets(PAGED_RESULTS_OID) + b"\x01\x01\xff" + octets(value)))


def paged_cookie(content: bytes) -> bytes | None:
    """Return the cookie of the page that a message ends; empty after the last page, None where there is no control."""
    value = controls(message(content).controls).get(PAGED_RESULTS_OID)
    if value is None:
        return None
    _, start, stop = element(value, 0, len(value))
    _, _, start = element(value, start, stop)
    _, start, stop = element(value, start, stop)
    return value[start:stop]


def controls(data: bytes) -> Dict[bytes, bytes]:
    """Return {OID: value} of a message's controls; one without a value has an empty one."""
    found: Dict[bytes, bytes] = {}
    start = 0
    while start < len(data):
        _, inner, start = element(data, start, len(data))
        _, first, behind = element(data, inner, start)
        name, value = data[first:behind], b""
        while behind < start:
            kind, first, behind = element(data, behind, start)
            if kind == 0x04:
                value = data[first:behind]
        found[name] = value
    return found


def ask_password_policy() -> bytes:
    """Return the controls of a bind that asks what the password policy says (draft-behera-ldap-password-policy)."""
    return tlv(CONTROLS, tlv(0x30, octets(PASSWORD_POLICY_OID)))


def must_change(data: bytes) -> bool:
    """Tell from the controls of a bind's answer whether nothing but a new password is allowed now, though it succeeded.

    OpenLDAP says so when asked, by the policy control; 389 unasked, by the control of Netscape.
    """
    found = controls(data)
    if PASSWORD_EXPIRED_OID in found:
        return True
    value = found.get(PASSWORD_POLICY_OID, b"")
    if not value:
        return False
    _, start, stop = element(value, 0, len(value))
    while start < stop:
        # The warning may be there or not, and so may the error.
        tag, first, start = element(value, start, stop)
        if tag == 0x81:
            return int.from_bytes(value[first:start], "big") == CHANGE_AFTER_RESET
    return False


def simple_bind(dn: bytes, password: bytes) -> bytes:
    """Return a BindRequest; an empty password with a DN would count as a login nowhere, so it is refused."""
    if dn and not password:
        raise ValueError("a simple bind with a DN and an empty password authenticates nobody")
    return tlv(BIND_REQUEST, integer(3) + octets(dn) + tlv(0x80, password))


def sasl_bind(mechanism: bytes, credentials: bytes) -> bytes:
    """Return a BindRequest of a SASL mechanism that needs one step, with its initial response (RFC 4513, 5.2)."""
    return tlv(BIND_REQUEST, integer(3) + octets(b"") + tlv(0xA3, octets(mechanism) + octets(credentials)))


def unbind() -> bytes:
    """Return an UnbindRequest."""
    return tlv(UNBIND_REQUEST, b"")


def starttls() -> bytes:
    """Return the extended request that asks for TLS on this connection."""
    return tlv(EXTENDED_REQUEST, tlv(0x80, STARTTLS_OID))


def search(base: bytes, encoded_filter: bytes, attributes: Sequence[bytes], scope: int = 2) -> bytes:
    """Return a SearchRequest: scope 0 base, 1 one level, 2 subtree; aliases never followed, no limits asked for."""
    listed = b"".join(octets(name) for name in attributes)
    return tlv(
        SEARCH_REQUEST,
        octets(base)
        + integer(scope, 0x0A)
        + integer(0, 0x0A)
        + integer(0)
        + integer(0)
        + b"\x01\x01\x00"
        + encoded_filter
        + tlv(0x30, listed),
    )


def header(data: bytes, start: int, end: int) -> Tuple[int, int, int] | None:
    """Read tag and length at `start`; return (tag, first content octet, first octet behind), or None if cut short.

    Raises DecodeError for a length that is indefinite or beyond MAX_MESSAGE.
    """
    if start + 2 > end:
        return None
    tag, size = data[start], data[start + 1]
    start += 2
    if size >= 0x80:
        count = size & 0x7F
        if count == 0 or count > 4:
            raise DecodeError("a length of %d octets" % count if count else "an indefinite length")
        if start + count > end:
            return None
        size = int.from_bytes(data[start : start + count], "big")
        start += count
    if size > MAX_MESSAGE:
        raise DecodeError("a length of %d bytes" % size)
    return tag, start, start + size


def element(data: bytes, start: int, end: int) -> Tuple[int, int, int]:
    """Read an element that must lie whole within data[start:end]; return (tag, content start, end)."""
    found = header(data, start, end)
    if found is None or found[2] > end:
        raise DecodeError("an element that ends outside its parent")
    return found


def cut(data: bytes) -> Tuple[List[bytes], bytes]:
    """Cut whole messages from the front of a stream; return their contents and the unfinished rest."""
    whole: List[bytes] = []
    start, end = 0, len(data)
    while start < end:
        if data[start] != 0x30:
            raise DecodeError("a message that begins with octet 0x%02x" % data[start])
        found = header(data, start, end)
        if found is None or found[2] > end:
            break
        whole.append(data[found[1] : found[2]])
        start = found[2]
    return whole, data[start:]


def message(content: bytes) -> Message:
    """Read the content of one LDAPMessage."""
    end = len(content)
    tag, start, stop = element(content, 0, end)
    if tag != 0x02 or not 1 <= stop - start <= 4:
        raise DecodeError("a message without a message id")
    message_id = int.from_bytes(content[start:stop], "big", signed=True)
    tag, start, stop = element(content, stop, end)
    body, behind = content[start:stop], b""
    if stop < end:
        kind, start, stop = element(content, stop, end)
        behind = content[start:stop] if kind == CONTROLS else b""
    return Message(message_id, tag, body, behind)


def result(body: bytes) -> Result:
    """Read the LDAPResult at the front of a response."""
    end = len(body)
    tag, start, stop = element(body, 0, end)
    if tag != 0x0A or not 1 <= stop - start <= 4:
        raise DecodeError("a result without a result code")
    code = int.from_bytes(body[start:stop], "big", signed=True)
    tag, start, stop = element(body, stop, end)
    if tag != 0x04:
        raise DecodeError("a result without a matched DN")
    tag, start, stop = element(body, stop, end)
    if tag != 0x04:
        raise DecodeError("a result without a diagnostic message")
    text = body[start:stop].decode("utf-8", "replace")
    referrals: List[str] = []
    if stop < end:
        tag, start, behind = element(body, stop, end)
        while tag == 0xA3 and start < behind:
            _, first, start = element(body, start, behind)
            referrals.append(body[first:start].decode("utf-8", "replace"))
    return Result(code, text, tuple(referrals))


def entry_dn(body: bytes) -> bytes:
    """Return the DN of a SearchResultEntry."""
    tag, start, stop = element(body, 0, len(body))
    if tag != 0x04:
        raise DecodeError("a search entry without a DN")
    return body[start:stop]


def is_notice_of_disconnection(answer: Message) -> bool:
    """Tell whether an answer is the server's notice that it closes the connection."""
    return answer.id == 0 and answer.tag == EXTENDED_RESPONSE and NOTICE_OF_DISCONNECTION_OID in answer.body


class MessageIds:
    """Message ids in ascending order from 1 to 2147483647 and round again; 0 and ids in use are never given."""

    def __init__(self, first: int = 1) -> None:
        self._next = first

    def draw(self, in_use: Sequence[int] = ()) -> int:
        """Return the next id that is not in use."""
        while True:
            given = self._next
            self._next = 1 if given >= MAX_MESSAGE_ID else given + 1
            if given not in in_use:
                return given
