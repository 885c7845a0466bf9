"""Certificates made on the spot: a good one, and those that a client must refuse. Needs the `cryptography` package."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from holdfast.base import REAL

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey


class Certificate(StrEnum):
    """What is right or wrong with a server's certificate."""

    GOOD = "good"
    EXPIRED = "expired"
    NOT_YET_VALID = "not_yet_valid"
    SELF_SIGNED = "self_signed"
    WRONG_HOST = "wrong_host"


class Authority:
    """A certificate authority that only clients with its `trusting()` context trust."""

    def __init__(self) -> None:
        self._key = _new_key()
        self._certificate = _signed(self._key, "Holdfast test authority", self._key, "Holdfast test authority", ca=True)

    def trusting(self) -> ssl.SSLContext:
        """A client's context that trusts this authority and no other."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=_pem(self._certificate))
        return context

    def serving(self, kind: Certificate, *, hosts: tuple[str, ...]) -> ssl.SSLContext:
        """A server's context with such a certificate for the hosts."""
        key = _new_key()
        alone = kind is Certificate.SELF_SIGNED
        start, days = {Certificate.EXPIRED: (-10, 5), Certificate.NOT_YET_VALID: (10, 5)}.get(kind, (-1, 30))
        certificate = _signed(
            key,
            "Holdfast test server",
            key if alone else self._key,
            "Holdfast test server" if alone else "Holdfast test authority",
            hosts=("elsewhere.example",) if kind is Certificate.WRONG_HOST else hosts,
            start_days=start,
            days=days,
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # A context reads its key from a file only.
        with TemporaryDirectory() as folder:
            path = Path(folder) / "server.pem"
            path.write_text(_key_pem(key) + _pem(certificate))
            context.load_cert_chain(path)
        return context


def _new_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _signed(
    key: EllipticCurvePrivateKey,
    subject: str,
    issuer_key: EllipticCurvePrivateKey,
    issuer: str,
    *,
    hosts: tuple[str, ...] = (),
    start_days: int = -1,
    days: int = 30,
    ca: bool = False,
) -> x509.Certificate:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.x509.oid import NameOID

    start = datetime.fromtimestamp(REAL.wall_us() / 1_000_000, UTC) + timedelta(days=start_days)
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(int.from_bytes(REAL.token_bytes(16)) >> 1 | 1)
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=days))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
    )
    if hosts:
        builder = builder.add_extension(x509.SubjectAlternativeName([_name(host) for host in hosts]), critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _name(host: str) -> Any:
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _pem(certificate: x509.Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()


def _key_pem(key: EllipticCurvePrivateKey) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
