"""From logits to tokens: logit_bias, penalties, temperature, min_p, top_k, top_p, in this order.

Each row depends on its own request only: the same seed gives the same tokens beside any mates.
"""

from collections.abc import Sequence as Many
from math import isfinite

import torch

from splitpool_worker.candidates import Rows, choose
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
    best = logits.max(dim=-1)
    tokens = best.indices.tolist()
    finite = [isfinite(value) for value in best.values.tolist()]
    special = [i for i, sequence in enumerate(sequences) if not sequence.greedy and finite[i]]
    logprobs: dict[int, TokenLogprobs] = {}
    if special:
        chosen = [sequences[i] for i in special]
        rows = logits if len(special) == len(sequences) else logits[special]
        drawn, raw = _draw_special(rows, chosen)
        tokens = _replaced(tokens, special, drawn)
        logprobs = {special[i]: _logprobs(raw[i], chosen[i], drawn[i]) for i in raw}
    return [
        Drawn(token, logprobs.get(i)) if ok else None
        for i, (token, ok) in enumerate(zip(tokens, finite, strict=True))
    ]


def _draw_special(
    logits: torch.Tensor, sequences: Many[Sequence]
) -> tuple[list[int], dict[int, torch.Tensor]]:
    """Tokens of sequences that are not plainly greedy, and log-probabilities [V] where asked
    for."""
    wanted = [i for i, s in enumerate(sequences) if s.request.params.logprobs is not None]
    raw = dict(zip(wanted, logits[wanted].log_softmax(-1), strict=True)) if wanted else {}
    for row, sequence in zip(logits, sequences, strict=True):
        if edits(sequence):
            edit(row, sequence)
    tokens = logits.argmax(dim=-1).tolist()
    warm = [i for i, s in enumerate(sequences) if s.request.params.temperature >= COLDEST]
    if warm:
        rows = logits if len(warm) == len(sequences) else logits[warm]
        tokens = _replaced(tokens, warm, _draw_warm(rows, [sequences[i] for i in warm]))
    return tokens, raw


def _draw_warm(logits: torch.Tensor, sequences: Many[Sequence]) -> list[int]:
    params = [sequence.request.params for sequence in sequences]
    heat = torch.tensor([p.temperature for p in params], device=logits.device)[:, None]
    shifted = (logits - logits.amax(dim=-1, keepdim=True)) / heat
    numbers = [uniform(s.request.params.seed, s.outputs) for s in sequences]
    tokens: list[int] = choose(Rows.of(shifted.softmax(-1), params, numbers)).tolist()
    return tokens


def _logprobs(raw: torch.Tensor, sequence: Sequence, token: int) -> TokenLogprobs:
    count = min(sequence.request.params.logprobs or 0, raw.shape[-1])
    top = raw.topk(count)
    return TokenLogprobs(
        token_id=token,
        logprob=float(raw[token]),
        top=tuple(zip(top.indices.tolist(), top.values.tolist(), strict=True)),
    )


def _replaced(tokens: list[int], places: Many[int], values: Many[int]) -> list[int]:
    result = list(tokens)
    for place, value in zip(places, values, strict=True):
        result[place] = value
    return result
