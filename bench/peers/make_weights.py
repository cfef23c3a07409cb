"""Write a GGUF's weights as bfloat16 safetensors, with tokenizer: `make_weights.py GGUF FOLDER`.

Runs in the environment of transformers, which dequantises the file itself.
"""

import sys
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig


def main() -> None:
    """The folder is whole or not there."""
    source, target = map(Path, sys.argv[1:])
    part = target.with_name(f"{target.name}.part")
    model = AutoModelForCausalLM.from_pretrained(
        source.parent,
        gguf_file=source.name,
        dtype=torch.bfloat16,
        quantization_config=GgufConfig(gguf_file=source.name, dequantize=True),
    )
    model.save_pretrained(part)
    AutoTokenizer.from_pretrained(source.parent, gguf_file=source.name).save_pretrained(part)
    part.rename(target)


if __name__ == "__main__":
    main()
