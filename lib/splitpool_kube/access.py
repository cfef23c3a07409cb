"""What is needed to speak to an API server: its address, what is trusted, and who speaks."""

import base64
import contextlib
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


class NoAccess(Exception):
    """There is no usable way to an API server; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """How one API server is reached, and as whom. Files are read when they are needed: they change
    while a program runs."""

    server: str
    namespace: str = "default"
    # Certificates in PEM; of the authority none means those that the machine trusts.
    authority: Path | bytes | None = None
    certificate: Path | bytes | None = None
    key: Path | bytes | None = None
    insecure: bool = False
    server_name: str | None = None
    proxy: str | None = None
    token: Path | str | None = None
    basic: tuple[str, str] | None = None
    # The program that logs in, as the kubeconfig describes it, and where it is described.
    login: Mapping[str, Any] = field(default_factory=dict)
    folder: Path = Path()

    def headers(self) -> dict[str, str]:
        """Who speaks. Raises NoAccess."""
        token = self._token()
        if token:
            return {"Authorization": f"Bearer {token}"}
        if self.basic:
            pair = base64.b64encode(":".join(self.basic).encode()).decode()
            return {"Authorization": f"Basic {pair}"}
        return {}

    def tls(self) -> ssl.SSLContext:
        """What is trusted, and the certificate that is shown. Raises NoAccess."""
        try:
            for file in (self.authority, self.certificate, self.key):
                if isinstance(file, Path):
                    file.open("rb").close()  # OpenSSL does not name a file that it cannot read
            context = self._trusting()
            if self.certificate is not None:
                with _file(self.certificate) as certificate, _file(self.key) as key:
                    context.load_cert_chain(certificate or "", key)
        except (OSError, ValueError) as error:
            raise NoAccess(f"the certificates for {self.server} cannot be used: {error}") from None
        return context

    def _token(self) -> str | None:
        if not isinstance(self.token, Path):
            return self.token
        try:
            return self.token.read_text().strip()
        except OSError as error:
            raise NoAccess(f"token file {self.token}: {error.strerror}") from None

    def _trusting(self) -> ssl.SSLContext:
        if isinstance(self.authority, bytes):
            context = ssl.create_default_context(cadata=self.authority.decode("ascii"))
        else:
            context = ssl.create_default_context(cafile=self.authority)
        # Authorities that clusters made for themselves often lack what Python 3.13 began to want.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


@contextlib.contextmanager
def _file(content: Path | bytes | None) -> Iterator[Path | None]:
    """A file with this content: OpenSSL reads own certificates from files alone. Nobody else may
    read this one."""
    if content is None or isinstance(content, Path):
        yield content
        return
    with tempfile.NamedTemporaryFile() as made:
        made.write(content)
        made.flush()
        yield Path(made.name)
