"""The worker's command line, and the words with which a bad one is refused."""

import pytest

from splitpool_worker import config
from splitpool_worker.config import ConfigError, ResumeMode, WorkerConfig
from splitpool_worker.schedule.sequence import LatencyClass

MODEL = ["--model-name", "m", "--model", "file:///m.gguf"]
INTERACTIVE = ["--class", "interactive", "--vram-bytes", "4Gi"]
BATCH = ["--class", "batch", "--vram-bytes", "1000000000"]


def parsed(*arguments: str) -> WorkerConfig:
    return config.parse([*MODEL, *arguments], {})


def test_one_class_makes_a_split_worker_with_that_classes_defaults() -> None:
    worker = parsed(*BATCH)

    (batch,) = worker.classes
    assert batch.cls is LatencyClass.BATCH
    assert (batch.max_batch, batch.max_wait_s, batch.token_budget) == (64, 0.3, 512)
    assert not batch.stream
    assert worker.max_step_s == 0.1
    assert worker.resume_mode is ResumeMode.ON_REQUEST


def test_two_classes_make_a_shared_worker_interactive_first() -> None:
    worker = parsed(*BATCH, *INTERACTIVE)

    assert [part.cls for part in worker.classes] == [LatencyClass.INTERACTIVE, LatencyClass.BATCH]


def test_flags_after_a_class_belong_to_it() -> None:
    worker = parsed(
        *INTERACTIVE,
        "--max-batch",
        "3",
        "--no-prefix-cache",
        *BATCH,
        "--max-batch",
        "5",
        "--stream",
    )

    interactive, batch = worker.classes
    assert (interactive.max_batch, interactive.prefix_cache) == (3, False)
    assert (batch.max_batch, batch.prefix_cache, batch.stream) == (5, True, True)


def test_flags_of_the_worker_may_come_after_a_class_too() -> None:
    assert parsed(*INTERACTIVE, "--port", "9001", "--static").port == 9001


def test_bytes_are_numbers_or_kubernetes_quantities() -> None:
    worker = parsed("--resume-buffer-bytes", "64Ki", *INTERACTIVE)

    assert worker.classes[0].vram_bytes == 4 << 30
    assert worker.resume_buffer_bytes == 64 << 10
    assert parsed(*BATCH).classes[0].vram_bytes == 10**9


def test_defaults_on_a_gpu_are_larger() -> None:
    (interactive,) = parsed("--device", "cuda", *INTERACTIVE).classes

    assert (interactive.token_budget, interactive.prefill_chunk) == (2048, 512)


def test_secrets_come_from_the_environment() -> None:
    worker = config.parse(
        [*MODEL, *INTERACTIVE], {"SPLITPOOL_INTERNAL_TOKEN": "secret", "NODE_NAME": "node-1"}
    )

    assert worker.internal_token == "secret"
    assert worker.node_name == "node-1"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), ("--class", "interactive", "batch")),
        (("--class", "interactive"), ("--vram-bytes",)),
        (("--class", "fast", "--vram-bytes", "1"), ("--class", "fast", "interactive")),
        ((*INTERACTIVE, *INTERACTIVE), ("--class", "twice")),
        (("--class", "batch", "--vram-bytes", "4GB"), ("--vram-bytes", "4GB", "4Gi")),
        (("--class", "batch", "--vram-bytes", "-1"), ("--vram-bytes", "-1")),
        ((*BATCH, "--max-batch", "0"), ("--max-batch", "0", "1")),
        ((*BATCH, "--token-budget", "64"), ("--token-budget", "64", "--max-batch", "raise")),
        ((*INTERACTIVE, "--port", "99999"), ("--port", "99999", "65535")),
        ((*INTERACTIVE, "--max-step-ms", "x"), ("--max-step-ms", "x")),
        ((*INTERACTIVE, "--quantization", "int4"), ("--quantization", "int4", "none", "int8")),
        (
            (*INTERACTIVE, "--quantization", "int8", "--device", "cuda"),
            ("--quantization int8", "cpu", "cuda", "leave it out"),
        ),
        ((*INTERACTIVE, "--dtype", "float16"), ("--dtype", "float16", "bfloat16")),
        ((*INTERACTIVE, "--bogus"), ("--bogus",)),
        ((*INTERACTIVE, "--resume-mode", "Maybe"), ("--resume-mode", "Maybe", "OnRequest")),
    ],
)
def test_a_bad_command_line_is_refused_with_flag_value_and_limit(
    arguments: tuple[str, ...], said: tuple[str, ...]
) -> None:
    with pytest.raises(ConfigError) as refused:
        parsed(*arguments)

    assert all(part in str(refused.value) for part in said)


def test_help_lists_the_flags_of_a_class_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        config.parse(["--help"], {})

    assert left.value.code == 0
    shown = capsys.readouterr().out
    assert "--drain-seconds" in shown
    assert "--vram-bytes" in shown
