"""From logits to tokens: logit_bias, penalties, temperature, min_p, top_k, top_p, in this order.

Each row depends on its own request only: the same seed gives the same tokens beside any mates.
"""

from collections.abc import Sequence as Many
from math import isfinite

import torch

from splitpool_worker.candidates import Rows, choose
from splitpool_worker.largest import best, top
from splitpool_worker.logit_edits import edit, edits
from splitpool_worker.randomness import uniform
from splitpool_worker.sequence import Drawn, Sequence, TokenLogprobs

COLDEST = 1e-4
"""Temperatures below this are argmax: dividing by them would only overflow."""


@torch.inference_mode()
def draw(logits: torch.Tensor, sequences: Many[Sequence]) -> list[Drawn | None]:
    """The next token of each sequence from its row of float32 logits [R, V], which may be changed;
    None for a row that holds no finite maximum (a model that broke down for this sequence)."""
    if not sequences:
        return []
    special = [i for i, sequence in enumerate(sequences) if not sequence.greedy]
    raw = _raw_logprobs(logits, sequences, special)
    for i in special:
        if edits(sequences[i]):
            edit(logits[i], sequences[i])
    values, indices = best(logits)
    tokens: list[int] = indices.tolist()
    finite = [isfinite(value) for value in values.tolist()]
    warm = [i for i in special if finite[i] and sequences[i].request.params.temperature >= COLDEST]
    if warm:
        part = slice(None) if len(warm) == len(sequences) else warm
        drawn = _draw_warm(logits[part], values[part], [sequences[i] for i in warm])
        for i, token in zip(warm, drawn, strict=True):
            tokens[i] = token
    return [
        Drawn(token, _logprobs(raw.get(i), sequences[i], token)) if ok else None
        for i, (token, ok) in enumerate(zip(tokens, finite, strict=True))
    ]


def _raw_logprobs(
    logits: torch.Tensor, sequences: Many[Sequence], special: Many[int]
) -> dict[int, torch.Tensor]:
    """Log-probabilities [V] of the rows that ask for them, before anything is edited."""
    wanted = [i for i in special if sequences[i].request.params.logprobs is not None]
    return dict(zip(wanted, logits[wanted].log_softmax(-1), strict=True)) if wanted else {}


def _draw_warm(logits: torch.Tensor, highest: torch.Tensor, sequences: Many[Sequence]) -> list[int]:
    """Tokens drawn at a temperature above zero; uses up the logits."""
    params = [sequence.request.params for sequence in sequences]
    heat = torch.tensor([p.temperature for p in params], device=logits.device)
    weights = logits.sub_(highest[:, None]).div_(heat[:, None]).exp_()
    numbers = [uniform(s.request.params.seed, s.outputs) for s in sequences]
    tokens: list[int] = choose(Rows.of(weights, params, numbers)).tolist()
    return tokens


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
