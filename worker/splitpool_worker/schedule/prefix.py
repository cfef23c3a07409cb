"""How a prefix is named: a SHA-256 chain over full blocks of tokens, started by the caller's
salt."""

from array import array
from collections.abc import Sequence as Many
from hashlib import sha256


def root(salt: bytes) -> bytes:
    """The parent of a first block; the length prefix keeps salt and tokens from running
    together."""
    return sha256(len(salt).to_bytes(8, "little") + salt).digest()


def pack(tokens: Many[int]) -> bytes:
    """Tokens as bytes, so that blocks are hashed and compared without loops."""
    return array("I", tokens).tobytes()


def common(left: bytes, right: bytes) -> int:
    """How many leading tokens two packed runs share."""
    size = array("I").itemsize
    ends = range(0, min(len(left), len(right)), size)
    return (
        next((at for at in ends if left[at : at + size] != right[at : at + size]), ends.stop)
        // size
    )


def digest(parent: bytes, tokens: bytes) -> bytes:
    return sha256(parent + tokens).digest()
