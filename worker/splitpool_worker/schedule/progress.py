"""What a finished iteration changes for one sequence: K/V computed, tokens more, perhaps its
end."""

from collections.abc import Sequence as Many
from itertools import zip_longest

from splitpool_worker.schedule.sequence import (
    Drawn,
    FinishReason,
    FirstTokenTimes,
    Sequence,
    TokenOutput,
)
from splitpool_worker.schedule.step import Share

NOT_FINITE = "the model gave no finite logits for this sequence"


def advance(share: Share, drawn: Many[Drawn | None], now: float) -> list[TokenOutput]:
    """The outputs of a share that ran. `drawn` is what its rows gave that sample: the next token,
    and the ones after its drafts as far as those came true; None where the model gave none."""
    outputs: list[TokenOutput] = []
    sequence = share.sequence
    if share.guess is not None and sequence.lookup is not None:
        sequence.lookup.learn(share.guess, [each.token_id if each else -1 for each in drawn])
    sequence.computed += share.count - share.drafted
    for token, draft in zip_longest(drawn, share.drafts):
        if token is None:
            share.lane.distrust(sequence)
            return [*outputs, ended(sequence, FinishReason.ERROR, NOT_FINITE)]
        share.lane.publish(sequence)
        outputs.append(_output(share, token, now))
        if token.token_id != draft or outputs[-1].finish is not None:
            return outputs
        sequence.computed += 1
    share.lane.publish(sequence)
    return outputs


def _output(share: Share, drawn: Drawn, now: float) -> TokenOutput:
    """A token more."""
    sequence = share.sequence
    sequence.tokens.append(drawn.token_id)
    sequence.decoding = True
    index = len(sequence.tokens) - sequence.prompt_tokens - 1
    finish = _finish(sequence, drawn.token_id, index + 1, share.lane.longest)
    if finish is not None:
        share.lane.publish_tail(sequence)
    return TokenOutput(
        request_id=sequence.id,
        index=index,
        token_id=drawn.token_id,
        logprobs=drawn.logprobs,
        finish=finish,
        first=_first(sequence, now) if index == 0 else None,
    )


def ended(sequence: Sequence, reason: FinishReason, error: str | None = None) -> TokenOutput:
    """The end of a sequence without another token."""
    return TokenOutput(
        request_id=sequence.id,
        index=sequence.outputs,
        token_id=None,
        finish=reason,
        error=error,
    )


def _finish(sequence: Sequence, token: int, outputs: int, longest: int) -> FinishReason | None:
    request = sequence.request
    if token in request.stop_token_ids and outputs >= request.params.min_tokens:
        return FinishReason.STOP
    if outputs >= request.max_tokens or len(sequence.tokens) >= longest:
        return FinishReason.LENGTH
    return None


def _first(sequence: Sequence, now: float) -> FirstTokenTimes:
    scheduled = sequence.first_scheduled if sequence.first_scheduled is not None else now
    return FirstTokenTimes(
        queue_s=scheduled - sequence.submitted,
        prefill_s=now - scheduled,
        cached_tokens=sequence.cached_tokens,
    )
