"""Who calls: a keyed hash of the credential, and the highest class that an API key may ask for."""

import hashlib
import hmac
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

from splitpool_router.errors import Unauthorized
from splitpool_router.placing.classify import LatencyClass

ANONYMOUS = "anonymous"


class BadKeyFile(ValueError):
    """The API key file cannot be read; the message says where."""


class ApiKey(BaseModel):
    """One line of the key file: the key and the highest class of its holder."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)

    key: str
    name: str = ""
    max_class: LatencyClass = LatencyClass.INTERACTIVE


class KeyFile(BaseModel):
    """`{"keys": [{"key": "sk-...", "name": "nightly", "maxClass": "batch"}]}`."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    keys: list[ApiKey]


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who calls, as the workers know it, and what it may ask for."""

    id: str
    highest: LatencyClass


class Callers:
    """Names callers; with API keys, refuses those who hold none."""

    def __init__(self, *, secret: bytes, keys: tuple[ApiKey, ...] | None) -> None:
        self._secret = secret
        # Looked up by keyed hash: the time of a look-up tells nothing about a key.
        self._keys = None if keys is None else {self._hash(k.key): k.max_class for k in keys}

    def identify(self, headers: Mapping[str, str]) -> Caller:
        """The caller of a request; raises Unauthorized where keys are configured and none fits."""
        authorization = headers.get("Authorization", "").strip()
        key = _bearer(authorization) or headers.get("X-Api-Key", "").strip()
        if self._keys is None:
            credential = key or authorization
            name = self._hash(credential) if credential else ANONYMOUS
            return Caller(id=name, highest=LatencyClass.INTERACTIVE)
        name = self._hash(key)
        if not key or name not in self._keys:
            raise Unauthorized("this router needs an API key: send it as Authorization: Bearer KEY")
        return Caller(id=name, highest=self._keys[name])

    def _hash(self, credential: str) -> str:
        data = credential.encode("utf-8", "surrogateescape")
        return hmac.new(self._secret, data, hashlib.sha256).hexdigest()[:32]


def read_keys(path: Path) -> tuple[ApiKey, ...]:
    """The keys of a file; raises BadKeyFile, never naming a key."""
    try:
        keys = KeyFile.model_validate(json.loads(path.read_bytes())).keys
    except OSError as error:
        raise BadKeyFile(f"API key file {path}: {error.strerror}") from error
    except ValidationError as error:
        where = "; ".join(
            f"{'.'.join(str(part) for part in problem['loc'])}: {problem['msg']}"
            for problem in error.errors(include_input=False)
        )
        raise BadKeyFile(f"API key file {path}: {where}") from None
    except ValueError:
        raise BadKeyFile(f"API key file {path} is not JSON") from None
    return tuple(keys)


def _bearer(authorization: str) -> str:
    scheme, _, value = authorization.partition(" ")
    return value.strip() if scheme.lower() == "bearer" else ""
