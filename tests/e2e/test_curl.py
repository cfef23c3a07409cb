"""curl, as the README shows it."""

import json
import subprocess

from splitpool_bench.chain import Chain


def curl(*arguments: str) -> str:
    """Standard output of curl; a failure of the transport raises."""
    command = ["curl", "-sS", "--max-time", "120", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def chat(chain: Chain, *, stream: bool) -> list[str]:
    body = {
        "model": chain.model,
        "messages": [{"role": "user", "content": "Say hello."}],
        "max_tokens": 6,
        "temperature": 0,
        "stream": stream,
    }
    url = f"{chain.url}/v1/chat/completions"
    return [url, "-H", "Content-Type: application/json", "-d", json.dumps(body)]


def test_curl_gets_a_whole_answer(split: Chain) -> None:
    answer = json.loads(curl(*chat(split, stream=False)))

    assert answer["object"] == "chat.completion"
    assert answer["choices"][0]["message"]["content"]
    assert answer["usage"]["completion_tokens"] <= 6


def test_curl_gets_a_stream_that_is_numbered_and_ends_with_done(split: Chain) -> None:
    head, _, body = curl("-N", "-i", *chat(split, stream=True)).replace("\r", "").partition("\n\n")

    assert "text/event-stream" in head
    assert "x-splitpool-class: interactive" in head.lower()
    ids = [line for line in body.splitlines() if line.startswith("id: ")]
    assert ids == [f"id: {number}" for number in range(len(ids))]
    assert body.endswith("data: [DONE]\n\n")
    assert body.count("[DONE]") == 1
    assert "splitpool-timing" not in body


def test_the_chain_says_that_it_lives_and_what_it_counts(split: Chain) -> None:
    assert curl("-o", "/dev/null", "-w", "%{http_code}", f"{split.url}/health") == "200"
    assert curl("-o", "/dev/null", "-w", "%{http_code}", f"{split.url}/ready") == "200"

    curl(*chat(split, stream=True))

    assert "splitpool_router_ttft_seconds_count" in curl(f"{split.url}/metrics")


def test_tokenize_counts_what_the_model_will_read(split: Chain) -> None:
    body = json.dumps({"model": split.model, "prompt": " the sea"})

    answer = json.loads(curl(f"{split.url}/tokenize", "-d", body))

    assert answer["count"] == len(answer["tokens"]) == 2
