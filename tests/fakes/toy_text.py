"""Tokenizers small enough to reason about, behind the worker's real text side."""

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from splitpool_worker.text.tokenizer import TextModel

EOS = 96
LETTERS = [chr(32 + index) for index in range(95)] + ["\n"]
TEMPLATE = "{% for m in messages %}{{ m['role'] }}: {{ m['content'] }}\n{% endfor %}assistant:"


def letters() -> TextModel:
    """97 tokens: the printable letters of ASCII, the newline and an end."""
    spelled = [{" ": "Ġ", "\n": "Ċ"}.get(letter, letter) for letter in LETTERS]
    backend = _byte_level({token: index for index, token in enumerate(spelled)} | {"<end>": EOS})
    return TextModel(backend, eos_ids=frozenset({EOS}), chat_template=TEMPLATE)


def all_bytes() -> TextModel:
    """257 tokens: every byte, so that most characters take several tokens, and an end."""
    spelled = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = _byte_level({token: index for index, token in enumerate(spelled)} | {"<end>": 256})
    return TextModel(backend, eos_ids=frozenset({256}), chat_template=TEMPLATE)


def _byte_level(vocab: dict[str, int]) -> Tokenizer:
    backend = Tokenizer(models.BPE(vocab=vocab, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken("<end>", normalized=False)])
    return backend
