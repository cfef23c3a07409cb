"""How is the API server reached: from within a pod, or as a kubeconfig says?"""

import base64
import binascii
import contextlib
import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


class NoConnection(Exception):
    """There is no usable way to an API server; the message says what is missing."""


class _Part(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Cluster(_Part):
    server: str
    authority: str | None = Field(None, alias="certificate-authority")
    authority_data: str | None = Field(None, alias="certificate-authority-data")
    server_name: str | None = Field(None, alias="tls-server-name")
    insecure: bool = Field(False, alias="insecure-skip-tls-verify")


class _User(_Part):
    token: str | None = None
    token_file: str | None = Field(None, alias="tokenFile")
    certificate: str | None = Field(None, alias="client-certificate")
    certificate_data: str | None = Field(None, alias="client-certificate-data")
    key: str | None = Field(None, alias="client-key")
    key_data: str | None = Field(None, alias="client-key-data")
    plugin: Any = Field(None, alias="exec")


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """An API server, and as whom to speak to it. Files are read when they are needed: they change
    while the router runs."""

    server: str
    server_name: str | None = None
    authority: Path | bytes | None = None
    insecure: bool = False
    certificate: Path | bytes | None = None
    key: Path | bytes | None = None
    token: Path | str | None = None

    def headers(self) -> dict[str, str]:
        """Who speaks. Raises NoConnection."""
        if self.token is None:
            return {}
        try:
            token = self.token if isinstance(self.token, str) else self.token.read_text()
        except OSError as error:
            raise NoConnection(f"token file {self.token}: {error.strerror}") from error
        return {"Authorization": f"Bearer {token.strip()}"}

    def tls(self) -> ssl.SSLContext:
        """The authority that the server is held against, and the own certificate. Raises
        NoConnection."""
        try:
            context = self._trusting()
            if self.certificate is not None and self.key is not None:
                with _file(self.certificate) as certificate, _file(self.key) as key:
                    context.load_cert_chain(certificate, key)
        except (OSError, ssl.SSLError, ValueError) as error:
            raise NoConnection(f"the certificates for {self.server}: {error}") from error
        return context

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


def connection(env: Mapping[str, str], *, account: Path = _ACCOUNT) -> Connection:
    """The cluster that this process runs in, else that of the kubeconfig. Raises NoConnection."""
    host, port = env.get("KUBERNETES_SERVICE_HOST"), env.get("KUBERNETES_SERVICE_PORT")
    if host and port and (account / "token").is_file():
        return Connection(
            server=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
            authority=account / "ca.crt",
            token=account / "token",
        )
    places = env.get("KUBECONFIG", "").split(os.pathsep)
    files = [Path(place) for place in places if place] or [Path.home() / ".kube" / "config"]
    for file in files:
        if file.is_file():
            return read_kubeconfig(file)
    raise NoConnection(
        f"no service account at {account} and no kubeconfig at {files[0]}: run in a pod whose"
        " service account token is mounted, or set KUBECONFIG"
    )


def read_kubeconfig(file: Path) -> Connection:
    """What the current context of a kubeconfig says. Raises NoConnection."""
    try:
        content = YAML(typ="safe", pure=True).load(file.read_bytes())
        context = _named(content, "context", content["current-context"])
        cluster = _Cluster.model_validate(_named(content, "cluster", context["cluster"]))
        user = _User.model_validate(_named(content, "user", context["user"]))
        return _connection(cluster, user, file.parent)
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        text = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise NoConnection(f"kubeconfig {file}: {text}") from None
    except (OSError, YAMLError, KeyError, TypeError, binascii.Error) as error:
        text = f"kubeconfig {file} cannot be used: {type(error).__name__} {error}"
        raise NoConnection(text) from error


def _named(content: Mapping[str, Any], part: str, name: str) -> Mapping[str, Any]:
    for each in content[f"{part}s"]:
        if each["name"] == name:
            found: Mapping[str, Any] = each[part]
            return found
    raise KeyError(f"{part} {name}")


def _connection(cluster: _Cluster, user: _User, folder: Path) -> Connection:
    if user.plugin is not None:
        raise NoConnection(
            "the kubeconfig's user logs in by a plugin, which the router does not run: give one"
            " with a token or a client certificate, or go through `kubectl proxy`"
        )
    token: Path | str | None = user.token
    if user.token_file:
        token = folder / user.token_file
    return Connection(
        server=cluster.server.rstrip("/"),
        server_name=cluster.server_name,
        authority=_content(cluster.authority, cluster.authority_data, folder),
        insecure=cluster.insecure,
        certificate=_content(user.certificate, user.certificate_data, folder),
        key=_content(user.key, user.key_data, folder),
        token=token,
    )


def _content(path: str | None, data: str | None, folder: Path) -> Path | bytes | None:
    if data:
        return base64.b64decode(data)
    return folder / path if path else None


@contextlib.contextmanager
def _file(content: Path | bytes) -> Iterator[Path]:
    """A file with this content: OpenSSL reads own certificates from files alone."""
    if isinstance(content, Path):
        yield content
        return
    with tempfile.NamedTemporaryFile() as made:
        made.write(content)
        made.flush()
        yield Path(made.name)
