"""A stand-in for the worker's `inspect`: prints the card of SmolLM2-135M, or fails as told."""

import argparse
import json
import os
import sys
from pathlib import Path

CARD = {
    "architecture": "llama",
    "parameters": 134_515_008,
    "weightsBytes": 269_293_696,
    "kvBytesPerToken": 23_040,
    "workspaceBytes": 31_457_280,
    "contextBytes": 0,
    "modelMaxLen": 8192,
    "maxModelLen": 2048,
    "blockSize": 16,
    "vocabSize": 49_152,
}


def main() -> None:
    """As the script file says under "inspect", else the card."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--dtype", required=True)
    parser.add_argument("--quantization", required=True)
    parser.add_argument("--max-model-len", type=int)
    parser.add_argument("--max-tokens", type=int, required=True)
    parser.add_argument("--max-rows", type=int, required=True)
    parser.add_argument("--ops", required=True)
    options = parser.parse_args()
    behaviour = json.loads(Path(os.environ["FAKE_SCRIPT"]).read_text()).get("inspect", {})
    if "exit" in behaviour:
        print(f"no model at {options.model}", file=sys.stderr)
        print(json.dumps({"error": behaviour["error"]}), file=sys.stderr)
        sys.exit(behaviour["exit"])
    length = options.max_model_len or CARD["modelMaxLen"]
    print(json.dumps(CARD | {"maxModelLen": length}))


if __name__ == "__main__":
    main()
