"""What a request's own wishes change in its logits before they become probabilities: stop tokens
that come too early, logit_bias, penalties (in that order)."""

from collections import Counter

import torch

from splitpool_worker.schedule.sequence import Sequence


def edit(row: torch.Tensor, sequence: Sequence) -> None:
    """Change the logits [V] of one sequence in place."""
    params = sequence.request.params
    if sequence.outputs < params.min_tokens:
        row[[stop for stop in sequence.request.stop_token_ids if stop < len(row)]] = -torch.inf
    if params.logit_bias:
        tokens = torch.tensor([token for token, _ in params.logit_bias], device=row.device)
        row[tokens] += torch.tensor([bias for _, bias in params.logit_bias], device=row.device)
    if params.repetition_penalty != 1.0:
        _repetition(row, sequence.tokens, params.repetition_penalty)
    if params.presence_penalty or params.frequency_penalty:
        outputs = Counter(sequence.tokens[sequence.prompt_tokens :])
        _counts(row, outputs, params.presence_penalty, params.frequency_penalty)


def edits(sequence: Sequence) -> bool:
    """Whether this sequence changes its logits at all."""
    params = sequence.request.params
    return bool(params.logit_bias) or params.penalised or sequence.outputs < params.min_tokens


def _repetition(row: torch.Tensor, seen: list[int], penalty: float) -> None:
    """Every token of prompt and output becomes less likely (Keskar et al. 2019)."""
    tokens = torch.tensor(sorted(set(seen)), device=row.device)
    logits = row[tokens]
    row[tokens] = torch.where(logits > 0, logits / penalty, logits * penalty)


def _counts(row: torch.Tensor, outputs: Counter[int], presence: float, frequency: float) -> None:
    """Every token of the output loses `presence` once and `frequency` each time it came up."""
    if outputs:
        tokens = torch.tensor(list(outputs.keys()), device=row.device)
        counts = torch.tensor(list(outputs.values()), device=row.device, dtype=row.dtype)
        row[tokens] -= presence + frequency * counts
