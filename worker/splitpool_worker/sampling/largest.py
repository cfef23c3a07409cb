"""The largest of a long row, without sorting it: one pass finds the peak of every short chunk, and
only chunks with the highest peaks are looked into (an element among the k largest lies in one of
the k chunks with the highest peaks)."""

from typing import NamedTuple

import torch

CHUNK = 64
WORTHWHILE = 16384
"""Below this length torch's own functions are as fast."""


class Best(NamedTuple):
    """The largest element of each row [R], and its index."""

    values: list[float]
    """NaN where any of the row is."""
    indices: list[int]


def best(rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Value [R] and index [R] of the maximum of each row [R, V]; NaN where there is any NaN."""
    if not _chunked(rows):
        found = rows.max(dim=-1)
        return found.values, found.indices
    chunks = rows.reshape(len(rows), -1, CHUNK)
    highest = chunks.amax(-1).max(-1).indices
    within = chunks[torch.arange(len(rows), device=rows.device), highest].max(-1)
    return within.values, highest * CHUNK + within.indices


def top(rows: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Values and indices [R, k] of the k largest of each row [R, V], in falling order."""
    k = min(k, rows.shape[-1])
    if not _chunked(rows) or k > CHUNK:
        found = rows.topk(k)
        return found.values, found.indices
    chunks = rows.reshape(len(rows), -1, CHUNK)
    highest = chunks.amax(-1).topk(k).indices
    candidates = chunks[torch.arange(len(rows), device=rows.device)[:, None], highest].flatten(1)
    found = candidates.topk(k)
    chunk = highest.gather(1, found.indices // CHUNK)
    return found.values, chunk * CHUNK + found.indices % CHUNK


def total(rows: torch.Tensor) -> torch.Tensor:
    """The sum [R, 1] of each row in float64, added up in the same order however many rows there
    are."""
    if rows.shape[-1] % CHUNK == 0:
        rows = rows.reshape(len(rows), -1, CHUNK).sum(-1)
    return rows.sum(-1, keepdim=True, dtype=torch.float64)


def _chunked(rows: torch.Tensor) -> bool:
    return rows.shape[-1] >= WORTHWHILE and rows.shape[-1] % CHUNK == 0
