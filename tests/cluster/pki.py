"""Certificates for one control plane: its authority, its server, and a user each for who asks it.

A user is a client certificate: the common name is the user's, the organisations are its groups.
"""

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_LIFETIME = datetime.timedelta(days=7)
# A machine's clock may have been set back since.
_BEFORE = datetime.timedelta(hours=1)
_SERVER_NAMES = ("localhost", "kubernetes.default.svc")


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """The files of a certificate and of its key, in PEM."""

    certificate: Path
    key: Path


class Authority:
    """Issues certificates into one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("splitpool-tests", ())
        self._users: dict[tuple[str, ...], Pair] = {}
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        made = self._unsigned(self._name, self._key.public_key()).add_extension(constraints, True)
        self.certificate = folder / "ca.crt"
        _write(self.certificate, _pem(made.sign(self._key, hashes.SHA256())))

    def server(self, *addresses: str) -> Pair:
        """A certificate for a server at these IP addresses."""
        ips = [x509.IPAddress(ipaddress.ip_address(address)) for address in addresses]
        names = x509.SubjectAlternativeName([*ips, *map(x509.DNSName, _SERVER_NAMES)])
        return self._issue("server", (), ExtendedKeyUsageOID.SERVER_AUTH, names)

    def user(self, name: str, groups: Sequence[str] = ()) -> Pair:
        """A certificate that makes its holder this user in these groups; issued once."""
        who = (name, *groups)
        if who not in self._users:
            self._users[who] = self._issue(name, groups, ExtendedKeyUsageOID.CLIENT_AUTH)
        return self._users[who]

    def _issue(
        self,
        name: str,
        groups: Sequence[str],
        usage: x509.ObjectIdentifier,
        names: x509.SubjectAlternativeName | None = None,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        made = self._unsigned(_name(name, groups), key.public_key())
        made = made.add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        if names is not None:
            made = made.add_extension(names, critical=False)
        file = f"{name.replace(':', '_')}-{len(self._users)}"
        pair = Pair(certificate=self._folder / f"{file}.crt", key=self._folder / f"{file}.key")
        _write(pair.certificate, _pem(made.sign(self._key, hashes.SHA256())))
        _write(pair.key, _private(key))
        return pair

    def _unsigned(
        self, subject: x509.Name, key: ec.EllipticCurvePublicKey
    ) -> x509.CertificateBuilder:
        now = datetime.datetime.now(datetime.UTC)
        return x509.CertificateBuilder(
            issuer_name=self._name,
            subject_name=subject,
            public_key=key,
            serial_number=x509.random_serial_number(),
            not_valid_before=now - _BEFORE,
            not_valid_after=now + _LIFETIME,
        )


def service_account_key(folder: Path) -> Path:
    """The key that the API server signs tokens of service accounts with."""
    file = folder / "service-account.key"
    _write(file, _private(rsa.generate_private_key(public_exponent=65537, key_size=2048)))
    return file


def _name(common: str, groups: Sequence[str]) -> x509.Name:
    organisations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organisations, x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _private(key: ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )


def _write(file: Path, content: bytes) -> None:
    file.touch(mode=0o600)
    file.write_bytes(content)
