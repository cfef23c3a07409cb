"""The model's tokenizer and chat template, out of its GGUF file or Hugging Face directory."""

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

from splitpool_worker.checkpoint.weights import ModelUnreadable
from splitpool_worker.text import chat_template as templates

# Characters that are normalised at once, and how many of them their neighbours may change.
_PIECE, _EDGE = 1 << 16, 16


class NoChatTemplate(Exception):
    """The model has no chat template: it continues text only."""


class TemplateRefused(Exception):
    """The chat template does not take these messages; the message says why."""


class TextModel:
    """Text to token ids and back for one model. Safe to use from several threads."""

    def __init__(
        self,
        backend: Any,
        *,
        eos_ids: frozenset[int],
        chat_template: str | None = None,
        special: Mapping[str, str] | None = None,
    ) -> None:
        self.backend = backend
        self.eos_ids = eos_ids
        self.vocab_size: int = backend.get_vocab_size(with_added_tokens=True)
        self._chat_template = chat_template
        self._special = dict(special or {})
        self._byte_level = isinstance(backend.decoder, decoders.ByteLevel)
        self._longest = max((len(token) for token in backend.get_vocab()), default=1)

    def encode(self, text: str, *, special: bool = True) -> list[int]:
        """Token ids of `text`. Other Python threads run meanwhile."""
        encoded = self.backend.encode_batch_fast([text], add_special_tokens=special)
        return list(encoded[0].ids)

    def encode_chat(self, messages: Sequence[Mapping[str, str]]) -> list[int]:
        """Token ids of the messages with the answer's beginning. Raises NoChatTemplate,
        TemplateRefused."""
        return self.encode(self.render_chat(messages), special=False)

    def render_chat(self, messages: Sequence[Mapping[str, str]]) -> str:
        """The prompt that the model's own template makes of the messages."""
        if self._chat_template is None:
            raise NoChatTemplate
        try:
            return templates.render(self._chat_template, messages, self._special)
        except (TemplateError, TypeError, ValueError) as error:
            raise TemplateRefused(str(error)) from error

    @property
    def normalises(self) -> bool:
        """Whether texts may have another length when they are tokenised."""
        return self.backend.normalizer is not None

    def at_least(self, characters: int) -> int:
        """A lower bound of the tokens in so many characters, as they are after normalising."""
        return characters // self._longest

    def at_least_of(self, texts: Sequence[str], enough: int) -> int:
        """A lower bound of the tokens in these texts, which are normalised piece by piece until
        there are enough: tokenising them may take a hundred times as long."""
        characters = 0
        for text in texts:
            for start in range(0, len(text), _PIECE):
                piece = self.backend.normalizer.normalize_str(text[start : start + _PIECE])
                characters += max(0, len(piece) - _EDGE)
                if self.at_least(characters) >= enough:
                    return self.at_least(characters)
        return self.at_least(characters)

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids`, special tokens left out."""
        return str(self.backend.decode(list(ids), skip_special_tokens=True))

    def token_bytes(self, token_id: int) -> bytes:
        """One token's bytes, which need not be whole characters."""
        piece = self.backend.id_to_token(token_id)
        if piece is None:
            return b""
        if self._byte_level and all(char in _BYTE_OF for char in piece):
            return bytes(_BYTE_OF[char] for char in piece)
        text: str = self.backend.decode([token_id], skip_special_tokens=False)
        return text.encode()


def load(path: Path) -> TextModel:
    """The text side of the model at `path`. Raises ModelUnreadable."""
    try:
        return _from_directory(path) if path.is_dir() else _from_gguf(path)
    except (OSError, KeyError, ValueError, TypeError, struct.error) as error:
        raise ModelUnreadable(f"{path}: its tokenizer cannot be read: {error}") from error


def _byte_spelling() -> dict[str, int]:
    """Byte-level vocabularies spell each byte as one printable character (GPT-2's table)."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    table = {chr(byte): byte for byte in printable}
    return table | {chr(256 + index): byte for index, byte in enumerate(others)}


_BYTE_OF = _byte_spelling()


def _from_directory(path: Path) -> TextModel:
    config = _json(path / "tokenizer_config.json")
    backend = _from_file(path / "tokenizer.json")
    special = {
        name: text
        for name in ("bos_token", "eos_token", "unk_token", "pad_token")
        if (text := _token_text(config.get(name))) is not None
    }
    declared = [_json(path / name) for name in ("generation_config.json", "config.json")]
    eos = {token for known in declared for token in _ids(known.get("eos_token_id"))}
    if "eos_token" in special and (own := backend.token_to_id(special["eos_token"])) is not None:
        eos.add(own)
    return TextModel(
        backend,
        eos_ids=frozenset(eos),
        chat_template=_template(path, config),
        special=special,
    )


def _from_file(path: Path) -> Any:
    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library has no type of its own for this
        raise ValueError(f"{path.name}: {error}") from error


def _template(path: Path, config: Mapping[str, Any]) -> str | None:
    file = path / "chat_template.jinja"
    if file.exists():
        return file.read_text(encoding="utf-8")
    template = config.get("chat_template")
    if isinstance(template, list):
        named = {entry["name"]: entry["template"] for entry in template}
        template = named.get("default")
    return template if isinstance(template, str) else None


def _json(path: Path) -> dict[str, Any]:
    if not path.exists():
        return {}
    value = json.loads(path.read_text(encoding="utf-8"))
    return value if isinstance(value, dict) else {}


def _token_text(token: Any) -> str | None:
    text = token.get("content") if isinstance(token, dict) else token
    return text if isinstance(text, str) else None


def _ids(value: Any) -> list[int]:
    if value is None:
        return []
    return [value] if isinstance(value, int) else list(value)


# How the text was split where the merges of these vocabularies were learned.
_PRE_TOKENIZERS: Mapping[str, Callable[[], Any]] = {
    "smollm": lambda: pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    ),
    "gpt-2": lambda: pre_tokenizers.ByteLevel(add_prefix_space=False),
    "default": lambda: pre_tokenizers.ByteLevel(add_prefix_space=False),
}
_CONTROL, _USER_DEFINED = 3, 4


def _from_gguf(path: Path) -> TextModel:
    from splitpool_worker.text.gguf_fields import fields

    header = fields(path)
    ggml = {name.removeprefix("tokenizer.ggml."): value for name, value in header.items()}
    backend = _byte_level(ggml) if _is_byte_level(ggml) else _by_transformers(path)
    tokens = ggml["tokens"]
    special = {
        f"{name}_token": tokens[ggml[key]]
        for name, key in (("bos", "bos_token_id"), ("eos", "eos_token_id"))
        if key in ggml
    }
    eos = {ggml[key] for key in ("eos_token_id", "eot_token_id") if key in ggml}
    return TextModel(
        backend,
        eos_ids=frozenset(eos),
        chat_template=header.get("tokenizer.chat_template"),
        special=special,
    )


def _is_byte_level(ggml: Mapping[str, Any]) -> bool:
    return ggml.get("model") == "gpt2" and ggml.get("pre", "default") in _PRE_TOKENIZERS


def _byte_level(ggml: Mapping[str, Any]) -> Any:
    """A byte-level BPE tokenizer of the header's vocabulary and merges, which is many times
    quicker than to go through transformers' own classes."""
    vocab = {token: index for index, token in enumerate(ggml["tokens"])}
    merges = [tuple(merge.split(" ", 1)) for merge in ggml["merges"]]
    backend = Tokenizer(models.BPE(vocab=vocab, merges=merges))
    backend.pre_tokenizer = _PRE_TOKENIZERS[ggml.get("pre", "default")]()
    backend.decoder = decoders.ByteLevel()
    kinds = list(zip(ggml["tokens"], ggml.get("token_type", ()), strict=False))
    backend.add_special_tokens([_added(text) for text, kind in kinds if kind == _CONTROL])
    backend.add_tokens([_added(text) for text, kind in kinds if kind == _USER_DEFINED])
    if ggml.get("add_bos_token"):
        bos = ggml["tokens"][ggml["bos_token_id"]]
        backend.post_processor = processors.TemplateProcessing(
            single=f"{bos} $A", special_tokens=[(bos, ggml["bos_token_id"])]
        )
    return backend


def _added(text: str) -> Any:
    return AddedToken(text, normalized=False)


def _by_transformers(path: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name).backend_tokenizer
