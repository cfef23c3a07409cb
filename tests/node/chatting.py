"""A chat by the openai client, as a program for the cluster's network: what came, as JSON.

`python -m node.chatting URL MODEL CLASS`: a streamed answer of at most 24 tokens.
"""

import json
import sys

from openai import OpenAI

QUESTION = "Name three colours."


def chat(url: str, model: str, latency_class: str) -> dict[str, object]:
    """The text of a streamed answer, the class that served it, and its usage in tokens."""
    client = OpenAI(base_url=f"{url}/v1", api_key="anybody", max_retries=0, timeout=120)
    raw = client.chat.completions.with_raw_response.create(
        model=model,
        messages=[{"role": "user", "content": QUESTION}],
        max_tokens=24,
        temperature=0,
        stream=True,
        stream_options={"include_usage": True},
        extra_headers={"X-Splitpool-Class": latency_class},
    )
    parts, usage = [], None
    for chunk in raw.parse():
        parts += [choice.delta.content or "" for choice in chunk.choices]
        usage = chunk.usage or usage
    return {
        "text": "".join(parts),
        "class": raw.headers["X-Splitpool-Class"],
        "completion_tokens": usage.completion_tokens if usage else None,
    }


if __name__ == "__main__":
    print(json.dumps(chat(*sys.argv[1:])))
