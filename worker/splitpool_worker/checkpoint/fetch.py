"""Brings a model from a hub to this machine: the files that a worker reads, and no others."""

import errno
from dataclasses import dataclass
from pathlib import Path

# Hubs hold the same weights in several forms, and examples in folders.
READ = ["*.json", "*.safetensors", "*.jinja", "*.txt", "*.model"]
LEFT_OUT = ["*/*"]
_SCHEME = "hf://"


class NotFetched(Exception):
    """The model did not come; the message says why and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hub:
    """One model of a hub, at a revision or at its newest."""

    repository: str
    revision: str | None


def parse(source: str) -> Hub:
    """`hf://org/repo@revision` in its parts. Raises NotFetched."""
    repository, _, revision = source.removeprefix(_SCHEME).partition("@")
    if not source.startswith(_SCHEME) or repository.count("/") != 1:
        raise NotFetched(f"model source {source!r}: only hf://ORG/REPO[@REVISION] is fetched")
    return Hub(repository=repository, revision=revision or None)


def fetch(source: str, folder: Path) -> int:
    """Bytes of the model's files, which are in the folder afterwards; what an interrupted call
    has left there is used. Raises NotFetched."""
    from huggingface_hub import constants, snapshot_download
    from huggingface_hub.utils import disable_progress_bars

    hub = parse(source)
    disable_progress_bars()
    try:
        snapshot_download(
            hub.repository,
            revision=hub.revision,
            local_dir=folder,
            allow_patterns=READ,
            ignore_patterns=LEFT_OUT,
        )
    except Exception as error:  # the client's HTTP library, and so its errors, differ by version
        reason = _reason(error, hub, constants.ENDPOINT)
        raise NotFetched(f"model source {source!r}: {reason}") from error
    files = [path for path in folder.iterdir() if path.is_file()]
    if not any(path.suffix == ".safetensors" for path in files):
        raise NotFetched(
            f"model source {source!r}: {constants.ENDPOINT} has no *.safetensors of it, which is "
            "what a worker reads; name another repository"
        )
    return sum(path.stat().st_size for path in files)


def _reason(error: BaseException, hub: Hub, endpoint: str) -> str:
    """Cause and remedy. What the hub answers is a kind of OSError too."""
    from huggingface_hub import errors

    token = "HF_TOKEN in spec.podTemplate.env"
    match error:
        case errors.LocalEntryNotFoundError(__cause__=BaseException() as cause):
            return _reason(cause, hub, endpoint)
        case errors.GatedRepoError():
            return f"{endpoint} keeps it for those who are let in; set {token} to a token that is"
        case errors.RepositoryNotFoundError():
            return (
                f"{endpoint} has no such model, or shows it to members only; correct the name or "
                f"set {token}"
            )
        case errors.RevisionNotFoundError():
            return f"{endpoint} has no revision {hub.revision!r} of it; correct what follows the @"
        case errors.HfHubHTTPError() if error.response is not None:
            status = error.response.status_code
            return f"{endpoint} answers {status} to {error.response.request.url}; try again later"
        case OSError(errno=errno.ENOSPC):
            return "there is no room for it; make the volume or the node's disk larger"
        case OSError(filename=str() as path):
            return f"{path}: {error.strerror}; name a folder where this user may write"
        case errors.HFValidationError():
            return str(error).replace("\n", " ")
    return (
        f"{endpoint} does not send it ({type(error).__name__}: {error}); let this machine reach "
        "it, or set HF_ENDPOINT in spec.podTemplate.env"
    )
