"""How many tokens a request will hold: the router has no tokenizer, it learns bytes per token."""

_DECAY = 0.98
_FLOOR, _CEILING = 1.0, 16.0


class Estimator:
    """Bytes per prompt token and tokens per answer of one model, learned from `usage`."""

    def __init__(self, *, bytes_per_token: float = 4.0, answer_tokens: float = 256.0) -> None:
        weight = 256.0
        self._bytes = bytes_per_token * weight
        self._tokens = weight
        self._answer = answer_tokens

    @property
    def bytes_per_token(self) -> float:
        """The learned ratio, within bounds that no tokenizer leaves for long."""
        return min(max(self._bytes / self._tokens, _FLOOR), _CEILING)

    @property
    def answer_tokens(self) -> int:
        """What an answer without max_tokens takes on average."""
        return max(round(self._answer), 1)

    def tokens(self, text_bytes: int) -> int:
        """Prompt tokens of a text of this size, at least one."""
        return max(round(text_bytes / self.bytes_per_token), 1)

    def learn_prompt(self, *, text_bytes: int, tokens: int) -> None:
        """One observed pair; recent ones and long ones weigh more."""
        if text_bytes <= 0 or tokens <= 0:
            return
        self._bytes = self._bytes * _DECAY + text_bytes
        self._tokens = self._tokens * _DECAY + tokens

    def learn_answer(self, tokens: int) -> None:
        """One observed answer of a request that set no limit."""
        self._answer += 0.05 * (tokens - self._answer)
