"""What a finished iteration changes for one sequence: K/V computed, a token more, perhaps its
end."""

from splitpool_worker.schedule.sequence import (
    Drawn,
    FinishReason,
    FirstTokenTimes,
    Sequence,
    TokenOutput,
)
from splitpool_worker.schedule.step import Share

NOT_FINITE = "the model gave no finite logits for this sequence"


def advance(share: Share, drawn: Drawn | None, now: float) -> TokenOutput | None:
    """The output of a share that ran; `drawn` is the token of one that samples, None where the
    model gave none."""
    sequence = share.sequence
    if share.samples and drawn is None:
        share.lane.distrust(sequence)
        return ended(sequence, FinishReason.ERROR, NOT_FINITE)
    sequence.computed += share.count
    share.lane.publish(sequence)
    if drawn is None:
        return None
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
