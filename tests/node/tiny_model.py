"""A model that loads at once, for tests of how models come: a folder of files, an image of them."""

import tarfile
from pathlib import Path

from fakes.toy_text import letters
from llama_models import random_model, save, tiny_config
from node.cluster import RealCluster
from node.pod_image import platform_settings

# What a pool has to say of it besides its source.
POOL = {"spec.model.maxModelLen": 256, "spec.pools.interactive.vram": "256Mi"}


def write(folder: Path) -> Path:
    """Its files in a folder that every user may read."""
    text = letters()
    save(random_model(tiny_config(vocab_size=text.vocab_size)), folder)
    text.backend.save(str(folder / "tokenizer.json"))
    folder.chmod(0o755)
    for file in folder.iterdir():
        file.chmod(0o644)
    return folder


def push(real: RealCluster, folder: Path, image: str) -> None:
    """An image whose root is the folder, in the cluster's registry."""
    layer = folder.with_suffix(".tar")
    with tarfile.open(layer, "w") as archive:
        for file in folder.iterdir():
            archive.add(file, file.name)
    crane = str(real.node.programs.crane)
    appending = [crane, "append", f"--new_layer={layer}", f"--new_tag={image}"]
    real.run_inside(appending, check=True)
    real.run_inside([crane, "mutate", image, *platform_settings(), f"--tag={image}"], check=True)
