"""Which token a random number in [0, 1) picks from probabilities, under min_p, top_k and top_p.

Candidates are taken in falling order of probability and the draw inverts their distribution
function. The vocabulary is not sorted for that: the few most likely tokens nearly always decide,
and where they do not, more are looked at for that row only. Every row comes out the same
whatever rows are beside it.
"""

from collections.abc import Sequence as Many
from dataclasses import dataclass

import torch

from splitpool_worker.sampling.largest import top, total
from splitpool_worker.schedule.sequence import SamplingParams

FEW, SOME = 64, 1024
"""Candidates looked at first, and then where the limits reach further; beyond, a row is sorted."""


@dataclass(slots=True)
class Rows:
    """Weights [R, V] in float32, proportional to probabilities; for each row their sum, its limits
    and its random number, all [R, 1]."""

    weights: torch.Tensor
    total: torch.Tensor
    min_p: torch.Tensor
    top_k: torch.Tensor
    top_p: torch.Tensor
    uniform: torch.Tensor

    @classmethod
    def of(
        cls, weights: torch.Tensor, params: Many[SamplingParams], uniform: Many[float]
    ) -> "Rows":
        vocab = weights.shape[-1]
        columns = torch.tensor(
            [(p.min_p, p.top_k or vocab, p.top_p, u) for p, u in zip(params, uniform, strict=True)],
            device=weights.device,
            dtype=torch.float64,
        )
        min_p, top_k, top_p, drawn = columns[:, :, None].unbind(1)
        return cls(
            weights=weights,
            total=total(weights),
            min_p=min_p,
            top_k=top_k,
            top_p=top_p,
            uniform=drawn,
        )

    @property
    def vocab(self) -> int:
        return self.weights.shape[-1]

    @property
    def ranked(self) -> torch.Tensor:
        """[R, 1]: whether min_p or top_k drop anything before top_p looks at what is left."""
        return (self.min_p > 0.0) | (self.top_k < self.vocab)

    def pick(self, rows: torch.Tensor) -> "Rows":
        return Rows(
            self.weights[rows],
            self.total[rows],
            self.min_p[rows],
            self.top_k[rows],
            self.top_p[rows],
            self.uniform[rows],
        )


def choose(rows: Rows) -> torch.Tensor:
    """The token [R] that each row's random number picks."""
    tokens, decided = _among(rows, FEW)
    for row in (~decided).nonzero():  # rare, and one at a time, so that memory stays bounded
        tokens[row] = _further(rows.pick(row))
    return tokens


def _further(row: Rows) -> torch.Tensor:
    """The token [1] of a single row for which the few most likely tokens do not decide."""
    if not (row.ranked | (row.top_p < 1.0)).item():
        return _beyond_few(row)
    token, decided = _among(row, SOME)
    return token if decided.item() else _among(row, row.vocab)[0]


def _among(rows: Rows, width: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The tokens [R] picked among the `width` most likely, and whether those were enough to
    know."""
    heaviest, tokens = top(rows.weights, width)
    p = heaviest.double() / rows.total
    rank = torch.arange(p.shape[-1], device=p.device)
    floor = rows.min_p * p[:, :1]
    whole = (rows.top_k <= p.shape[-1]) | (p[:, -1:] < floor) | (p.shape[-1] == rows.vocab)
    p = p * ((rank < rows.top_k) & (p >= floor))
    mass = p.cumsum(-1)
    seen = mass[:, -1:]
    limit = rows.top_p * torch.where(whole, seen, 1.0)
    nucleus = p * ((mass - p < limit) | (rank == 0))
    reached = nucleus.cumsum(-1)
    target = rows.uniform * torch.where(whole | (rows.top_p < 1.0), reached[:, -1:], 1.0)
    enough = torch.where(rows.top_p < 1.0, seen >= limit, target < seen)
    place = (reached <= target).sum(-1, keepdim=True)
    last = (nucleus > 0.0).sum(-1, keepdim=True) - 1
    chosen = tokens.gather(-1, torch.minimum(place, last))
    return chosen[:, 0], (whole | (~rows.ranked & enough))[:, 0]


def _beyond_few(rows: Rows) -> torch.Tensor:
    """For unlimited rows whose random number lies beyond the few most likely tokens: the others, in
    the order of the vocabulary, follow on where those end."""
    heaviest, tokens = top(rows.weights, FEW)
    before = (heaviest.double() / rows.total).cumsum(-1)[:, -1:]
    rest = (rows.weights.double() / rows.total).scatter(-1, tokens, 0.0)
    reached = rest.cumsum(-1)
    ceiling = reached[:, -1:].nextafter(torch.zeros_like(before))
    beyond = torch.minimum(rows.uniform - before, ceiling)
    return torch.searchsorted(reached, beyond, right=True)[:, 0]
