# Copyright: the ldaptune authors
# SPDX-License-Identifier: GPL-3.0-or-later
"""A server made of a script, for all that talks LDAP; certificates for it."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import socket
import ssl
import threading

import pytest
from ldaptune.load import wire


class Client:
    """One connection as the fake server sees it."""

    def __init__(self, sock, server):
        self.sock = sock
        self.server = server
        self.rest = b""
        self.waiting = []

    def read(self):
        """Return the next request, or None at the end of the stream."""
        while not self.waiting:
            try:
                data = self.sock.recv(65536)
            except OSError:
                return None
            if not data:
                return None
            try:
                whole, self.rest = wire.cut(self.rest + data)
            except wire.DecodeError:
                return None
            self.waiting = [wire.message(content) for content in whole]
            self.server.requests.extend(self.waiting)
        return self.waiting.pop(0)

    def send(self, data):
        with contextlib.suppress(OSError):
            self.sock.sendall(data)

    def requests(self):
        """Yield binds and searches until the client leaves."""
        while True:
            request = self.read()
            if request is None or request.tag == wire.UNBIND_REQUEST:
                return
            yield request

    def reset(self):
        """Close so that the other side gets a reset."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        self.sock.close()


class FakeServer:
    """Listens on loopback and runs `script(client)` for each connection in a thread."""

    def __init__(self, script, family=socket.AF_INET):
        self.script = script
        self.requests = []
        self.listener = socket.socket(family)
        self.listener.bind(("::1" if family == socket.AF_INET6 else "127.0.0.1", 0))
        self.listener.listen(64)
        self.threads = []
        self.socks = []
        self.port = self.listener.getsockname()[1]
        self.uri = ("ldap://[::1]:%d" if family == socket.AF_INET6 else "ldap://127.0.0.1:%d") % self.port
        self._start(self._accept)

    def _start(self, act, *arguments):
        thread = threading.Thread(target=act, args=arguments, daemon=True)
        self.threads.append(thread)
        thread.start()

    def _accept(self):
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            self.socks.append(sock)
            self._start(self._serve, sock)

    def _serve(self, sock):
        try:
            self.script(Client(sock, self))
        finally:
            with contextlib.suppress(OSError):
                sock.close()

    def stop(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for sock in self.socks:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self.threads:
            thread.join(5)


def result(message_id, code=0, tag=wire.BIND_RESPONSE, text=b"", more=b""):
    """An answer with a result."""
    body = wire.integer(code, 0x0A) + wire.octets(b"") + wire.octets(text) + more
    return wire.envelope(message_id, wire.tlv(tag, body))


def entry(message_id, dn, attributes=b""):
    """A search entry."""
    return wire.envelope(message_id, wire.tlv(wire.SEARCH_ENTRY, wire.octets(dn) + wire.tlv(0x30, attributes)))


@pytest.fixture
def answers():
    """The makers of answers: answers.result(...), answers.entry(...)."""

    class Makers:
        pass

    Makers.result = staticmethod(result)
    Makers.entry = staticmethod(entry)
    return Makers


@pytest.fixture
def fake_server():
    """Make fake servers: fake_server(script)."""
    made = []

    def make(script, **more):
        made.append(FakeServer(script, **more))
        return made[-1]

    yield make
    for server in made:
        server.stop()


@pytest.fixture(scope="module")
def certificates(tmp_path_factory):
    """Return a maker of (CA file, server's certificate file) for subject alternative names."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    folder = tmp_path_factory.mktemp("certificates")
    authority_key = ec.generate_private_key(ec.SECP256R1())
    authority_name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "test authority")])
    now = datetime.datetime.now(datetime.timezone.utc)

    def sign(name, key, *extensions):
        builder = x509.CertificateBuilder().subject_name(name).issuer_name(authority_name)
        builder = builder.public_key(key.public_key()).serial_number(x509.random_serial_number())
        builder = builder.not_valid_before(now - datetime.timedelta(1)).not_valid_after(now + datetime.timedelta(1))
        for extension, critical in extensions:
            builder = builder.add_extension(extension, critical)
        return builder.sign(authority_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    authority = folder / "ca.pem"
    authority.write_bytes(sign(authority_name, authority_key, (x509.BasicConstraints(True, None), True)))

    def make(common_name, *names):
        key = ec.generate_private_key(ec.SECP256R1())
        found = []
        for name in names:
            try:
                found.append(x509.IPAddress(ipaddress.ip_address(name)))
            except ValueError:
                found.append(x509.DNSName(name))
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, common_name)])
        more = [(x509.SubjectAlternativeName(found), False)] if found else []
        path = folder / ("%d.pem" % len(list(folder.iterdir())))
        path.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
            + sign(subject, key, *more)
        )
        return str(authority), str(path)

    return make


@pytest.fixture
def tls_script():
    """Return a maker of scripts that serve TLS: tls_script(certificate file, starttls)."""

    def make(certificate, starttls):
        """Serve TLS, at once or after StartTLS, and answer one bind."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)

        def script(client):
            if starttls:
                client.send(result(client.read().id, tag=wire.EXTENDED_RESPONSE))
            with contextlib.suppress(OSError):
                client.sock = context.wrap_socket(client.sock, server_side=True)
                for request in client.requests():
                    client.send(result(request.id))

        return script

    return make
