"""Token ids to text while they are sampled: what an answer says so far, and where it ends."""

from collections.abc import Sequence
from typing import Any, Protocol

from tokenizers.decoders import DecodeStream

from splitpool_worker.text.stops import Piece, StopFilter

# A character has at most four bytes. So many tokens without any text are not a character to wait
# for, and decoding them again with every new one would cost more and more.
MAX_SILENT_TOKENS = 32


class Decoder(Protocol):
    """What this module needs of a tokenizer; `backend` is a `tokenizers.Tokenizer`."""

    @property
    def backend(self) -> Any: ...

    def decode(self, ids: Sequence[int]) -> str: ...


class IncrementalDecoder:
    """Decodes token by token; all texts joined, with `flush`, equal decoding at once."""

    def __init__(self, decoder: Decoder, context: Sequence[int] = ()) -> None:
        self._decoder = decoder
        self._silent: list[int] = []
        self._last = list(context)
        self._stream = DecodeStream(ids=self._last, skip_special_tokens=True)

    def push(self, token_id: int) -> str:
        """The text that `token_id` completes; empty while a character is incomplete."""
        self._silent.append(token_id)
        text = self._step(token_id)
        if text:
            self._last, self._silent = self._silent, []
            return text
        return self._restart() if len(self._silent) >= MAX_SILENT_TOKENS else ""

    def flush(self) -> str:
        """What is left at the end; an incomplete character comes out as U+FFFD."""
        before = self._decoder.decode(self._last)
        both = self._decoder.decode(self._last + self._silent)
        apart = both[len(before) :] if both.startswith(before) else None
        text = self._decoder.decode(self._silent) if apart is None else apart
        self._last, self._silent = self._silent, []
        return text

    def _step(self, token_id: int) -> str:
        try:
            return self._stream.step(self._decoder.backend, token_id) or ""
        except (OverflowError, TypeError):  # not an id of this vocabulary: it has no text
            return ""
        except Exception as error:
            # The library has one exception type for all of its errors. This one means that the
            # text before changed with the new token: go on from here with a new stream.
            if "Invalid prefix" not in str(error):
                raise
            return self._restart()

    def _restart(self) -> str:
        text = self.flush()
        self._stream = DecodeStream(skip_special_tokens=True)
        return text


class AnswerText:
    """One answer's text: pieces that are final, until a stop string or the end."""

    def __init__(
        self,
        decoder: Decoder,
        *,
        stops: Sequence[str] = (),
        min_tokens: int = 0,
        context: Sequence[int] = (),
        whole_tokens: bool = False,
    ) -> None:
        self._decoder = IncrementalDecoder(decoder, context)
        self._filter = StopFilter(stops, whole_tokens=whole_tokens)
        self._unfiltered = StopFilter(())
        self._min_tokens = min_tokens
        self._seen = 0
        self._tokens = 0
        self._logprobs: list[Any] = []

    @property
    def stopped_by(self) -> str | None:
        """The stop string that ended the text."""
        return self._filter.matched

    def push(self, token_id: int, logprobs: Any | None = None) -> list[Piece]:
        """The pieces that are final with this token."""
        self._count(logprobs)
        text = self._decoder.push(token_id)
        if not text:
            return []
        stops = self._filter if self._seen > self._min_tokens else self._unfiltered
        return stops.push(self._piece(text))

    def finish(self) -> list[Piece]:
        """The rest, once no token will follow."""
        text = self._decoder.flush()
        pieces = self._filter.push(self._piece(text)) if text or self._tokens else []
        return pieces if self.stopped_by else pieces + self._filter.flush()

    def count_silent(self) -> None:
        """Count a token whose text is not shown: the one that ends the answer."""
        self._count(None)

    def _count(self, logprobs: Any | None) -> None:
        self._seen += 1
        self._tokens += 1
        if logprobs is not None:
            self._logprobs.append(logprobs)

    def _piece(self, text: str) -> Piece:
        piece = Piece(text=text, tokens=self._tokens, logprobs=tuple(self._logprobs))
        self._tokens, self._logprobs = 0, []
        return piece
