"""What does someone type first, once the pools are ready?"""

from collections.abc import Sequence


def welcome(url: str, models: Sequence[str]) -> str:
    """The address, a curl line, how to stream, and two lines of Python."""
    model = models[0]
    served = ", ".join(models)
    return f"""
splitpool is ready: {url}/v1   model {served}   (Ctrl-C drains and stops)

  curl {url}/v1/chat/completions -H 'Content-Type: application/json' \\
    -d '{{"model": "{model}", "messages": [{{"role": "user", "content": "Hello"}}]}}'

  Streamed, for people who wait: curl -N and "stream": true.
  For jobs: -H 'X-Splitpool-Class: batch'.

  from openai import OpenAI; client = OpenAI(base_url="{url}/v1", api_key="none")
  print(client.completions.create(model="{model}", prompt="Hello", max_tokens=32).choices[0].text)
"""
