"""`read_model`: reads a complete model from a Hugging Face folder, or refuses it by name.

`transformers` fills a missing tensor with random numbers and drops a tensor that the model does not have. Training and
scoring a model with a missing layer then succeeds. Here each of these cases is an error of one line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils import logging as transformers_logging

from records.errors import ConfigError

EMBEDDING, HEAD = "model.embed_tokens.weight", "lm_head.weight"
NUM_NAMED = 3
"""Tensors that an error lists; it counts the others."""


def read_model(folder: Path, **options: Any) -> PreTrainedModel:
    """Load every tensor of a checkpoint folder into its model.

    Args:
        folder: with config.json and safetensors.
        options: arguments of `from_pretrained`, such as dtype.

    Raises:
        ConfigError: the folder does not exist or cannot be loaded; tensors are missing, unknown to the model,
            of another shape, or not finite; a head differs from the embedding it is tied to.
    """
    if not (folder / "config.json").is_file():
        what = "holds no config.json" if folder.is_dir() else "does not exist"
        raise ConfigError(f"{folder}: {what}; give a Hugging Face checkpoint folder")
    verbosity = transformers_logging.get_verbosity()
    # `transformers` logs a table of missing tensors; the error below names them.
    transformers_logging.set_verbosity_error()
    try:
        loaded: Any = AutoModelForCausalLM.from_pretrained(
            folder,
            local_files_only=True,
            output_loading_info=True,
            # Reported below by name; the default raises a RuntimeError without one.
            ignore_mismatched_sizes=True,
            **options,
        )
    except Exception as error:  # any exception: every one means that the folder cannot be read
        raise ConfigError(
            f"{folder}: is not a checkpoint transformers can load ({one_line(error)})"
        ) from None
    finally:
        transformers_logging.set_verbosity(verbosity)
    model, loading = loaded
    _require_whole(folder, loading)
    _require_tied_head(folder, model)
    broken = [name for name, tensor in model.named_parameters() if not bool(torch.isfinite(tensor).all())]
    if broken:
        raise ConfigError(
            f"{folder}: {listed(broken)} hold numbers that are not finite; give a whole checkpoint"
        )
    return model


def _require_whole(folder: Path, loading: dict[str, Any]) -> None:
    mismatched = [str(entry[0]) for entry in loading.get("mismatched_keys", ())]
    faults = [
        (loading.get("missing_keys", ()), "are missing from its weights"),
        (mismatched, "have another shape than its config.json asks for"),
        (loading.get("unexpected_keys", ()), "have no place in the model of its config.json"),
        (loading.get("error_msgs", ()), "could not be loaded"),
    ]
    for names, what in faults:
        if names:
            raise ConfigError(
                f"{folder}: {listed(names)} {what}; give the whole checkpoint and its own config.json"
            )


def _require_tied_head(folder: Path, model: PreTrainedModel) -> None:
    """Raise ConfigError when a stored head differs from the embedding that a tied model takes it from."""
    if not getattr(model.config, "tie_word_embeddings", False):
        return
    files = weight_files(folder)
    if HEAD not in files or EMBEDDING not in files:
        return
    head, embedding = (_tensor(files[name], name) for name in (HEAD, EMBEDDING))
    if head.shape != embedding.shape or not torch.equal(head, embedding):
        raise ConfigError(
            f"{folder}: {HEAD} differs from {EMBEDDING}, but config.json ties them, so the head would be dropped; "
            "set tie_word_embeddings to false there"
        )


def put(tensors: Mapping[str, torch.Tensor], model: PreTrainedModel) -> None:
    """Copy tensors into the model's parameters. Raises ConfigError unless both have the same names and shapes."""
    parameters = dict(model.named_parameters())
    found = {name: tensor.shape for name, tensor in tensors.items()}
    expected = {name: parameter.shape for name, parameter in parameters.items()}
    if found != expected:
        different = [name for name in found.keys() | expected.keys() if found.get(name) != expected.get(name)]
        raise ConfigError(
            f"saved weights do not fit the model: {listed(different)}; delete the working folder"
        )
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[name])


def weight_files(folder: Path) -> dict[str, Path]:
    """Tensor name -> file that holds it, for safetensors in one file or in shards."""
    index, single = folder / "model.safetensors.index.json", folder / "model.safetensors"
    if single.is_file():
        with safe_open(single, framework="pt") as tensors:
            return dict.fromkeys(tensors.keys(), single)
    if index.is_file():
        return {
            name: folder / file for name, file in json.loads(index.read_text("utf-8"))["weight_map"].items()
        }
    return {}


def _tensor(file: Path, name: str) -> torch.Tensor:
    with safe_open(file, framework="pt") as tensors:
        return tensors.get_tensor(name)


def one_line(error: Exception) -> str:
    """The message of a library's exception on one line, shortened."""
    return " ".join(str(error).split())[:300] or type(error).__name__


def listed(names: Iterable[str]) -> str:
    """The first names in order, and the number of further ones.

    >>> listed(["b", "a"]), listed("edcba")
    ('a, b', 'a, b, c and 2 more')
    """
    ordered = sorted(names)
    shown = ", ".join(ordered[:NUM_NAMED])
    return shown if len(ordered) <= NUM_NAMED else f"{shown} and {len(ordered) - NUM_NAMED} more"
