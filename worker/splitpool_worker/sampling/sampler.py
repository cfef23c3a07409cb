"""From logits to tokens: logit_bias, penalties, temperature, min_p, top_k, top_p, in this order.

Each row depends on its own request only: the same seed gives the same tokens beside any mates.
"""

from collections.abc import Sequence as Many
from math import isfinite

import torch

from splitpool_worker.sampling.candidates import Rows, choose
from splitpool_worker.sampling.largest import Best, best, top
from splitpool_worker.sampling.logit_edits import edit, edits
from splitpool_worker.sampling.randomness import uniform
from splitpool_worker.schedule.sequence import Drawn, Sample, Sequence, TokenLogprobs

GROUP = 8
"""Rows edited and drawn at a time: they are copied, and the quota knows of one set of logits."""
COLDEST = 1e-4
"""Temperatures below this are argmax: dividing by them would only overflow."""


def draw(logits: torch.Tensor, largest: Best, samples: Many[Sample]) -> list[Drawn | None]:
    """The token of each sample from its row of float32 logits [R, V] and the largest of each;
    None for a row that holds no finite maximum (a model, or a request's edits, that broke
    down for this sequence)."""
    drawn = [
        Drawn(token) if isfinite(value) else None
        for value, token in zip(largest.values, largest.indices, strict=True)
    ]
    special = [i for i, s in enumerate(samples) if not s.sequence.greedy and drawn[i] is not None]
    for start in range(0, len(special), GROUP):
        group = special[start : start + GROUP]
        for i, token in zip(
            group, _draw_special(logits[group], [samples[i] for i in group]), strict=True
        ):
            drawn[i] = token
    return drawn


@torch.inference_mode()
def _draw_special(logits: torch.Tensor, samples: Many[Sample]) -> list[Drawn | None]:
    """Tokens of samples that are not plainly greedy, from a copy of their logits; None for a row
    whose edits left no finite maximum."""
    sequences = [sample.sequence for sample in samples]
    raw = [
        None if sequence.request.params.logprobs is None else row.log_softmax(-1)
        for row, sequence in zip(logits, sequences, strict=True)
    ]
    for row, sequence in zip(logits, sequences, strict=True):
        if edits(sequence):
            edit(row, sequence)
    values, indices = best(logits)
    lost = [not isfinite(value) for value in values.tolist()]
    for row, value, broken in zip(logits, values, lost, strict=True):
        if broken:  # drawn like the others, so that it cannot break them
            row.zero_()
            value.zero_()
    warm = _draw_warm(logits, values, samples)
    tokens: list[int] = torch.where(
        _temperatures(sequences, logits) < COLDEST, indices, warm
    ).tolist()
    return [
        None if broken else Drawn(token, _logprobs(row, sequence, token))
        for row, sequence, token, broken in zip(raw, sequences, tokens, lost, strict=True)
    ]


def _draw_warm(logits: torch.Tensor, highest: torch.Tensor, samples: Many[Sample]) -> torch.Tensor:
    """The token [R] of each row at its temperature, if above zero; uses up the logits."""
    params = [sample.sequence.request.params for sample in samples]
    heat = _temperatures([sample.sequence for sample in samples], logits).clamp(min=COLDEST)
    weights = logits.sub_(highest[:, None]).div_(heat[:, None]).exp_()
    numbers = [uniform(p.seed, s.output) for p, s in zip(params, samples, strict=True)]
    return choose(Rows.of(weights, params, numbers))


def _temperatures(sequences: Many[Sequence], like: torch.Tensor) -> torch.Tensor:
    return torch.tensor([s.request.params.temperature for s in sequences], device=like.device)


def _logprobs(raw: torch.Tensor | None, sequence: Sequence, token: int) -> TokenLogprobs | None:
    if raw is None:
        return None
    count = min(sequence.request.params.logprobs or 0, raw.shape[-1])
    values, indices = top(raw[None], count)
    return TokenLogprobs(
        token_id=token,
        logprob=float(raw[token]),
        top=tuple(zip(indices[0].tolist(), values[0].tolist(), strict=True)),
    )
