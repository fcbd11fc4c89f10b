"""`untied_tensors`, `untied_folder`: the engine's copy of a model, with its output head stored beside the embedding.

vLLM reloads the embedding of a tied model and leaves the head at the old weights (measured with 0.32.0), so its
log-probs would belong to neither model.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor
from transformers import PreTrainedConfig

from records.errors import ConfigError
from records.files import read_json, write_json, write_text
from trainer.weights import EMBEDDING, HEAD, weight_files

CONFIG, INDEX = "config.json", "model.safetensors.index.json"
_METADATA = {"format": "pt"}


def untied_tensors(tensors: Mapping[str, Tensor], config: PreTrainedConfig, folder: Path) -> None:
    """Write the tensors of a transformers module, head included, into a new folder."""
    folder.mkdir(parents=True)
    whole = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    # A tied head shares memory with the embedding, which safetensors does not write twice.
    whole[HEAD] = whole.get(HEAD, whole[EMBEDDING]).clone()
    save_file(whole, folder / "model.safetensors", metadata=_METADATA)
    write_text(folder / CONFIG, config.to_json_string(use_diff=False))
    write_json(folder / CONFIG, {**read_json(folder / CONFIG), "tie_word_embeddings": False})


def untied_folder(checkpoint: Path, folder: Path) -> None:
    """Link a checkpoint's files into a new folder and add the head that a tied one lacks.

    Raises:
        ConfigError: the checkpoint holds no embedding in safetensors.
    """
    files = weight_files(checkpoint)
    if EMBEDDING not in files:
        raise ConfigError(
            f"{checkpoint}: holds no {EMBEDDING} in safetensors; give a whole checkpoint in that format"
        )
    folder.mkdir(parents=True)
    for file in checkpoint.iterdir():
        # Without an index vLLM reads every safetensors file of the folder: the added head, but no optimizer state.
        if file.name not in {CONFIG, INDEX} and (file.suffix != ".safetensors" or file in files.values()):
            os.symlink(file.resolve(), folder / file.name)
    write_json(folder / CONFIG, {**read_json(checkpoint / CONFIG), "tie_word_embeddings": False})
    if HEAD not in files:
        with safe_open(files[EMBEDDING], framework="pt") as tensors:
            save_file({HEAD: tensors.get_tensor(EMBEDDING)}, folder / "head.safetensors", metadata=_METADATA)
