"""`export`: a checkpoint in another number format, with a separate output head on request."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch

from records.errors import ConfigError
from records.manifest import verify
from trainer.model import load_model
from trainer.stages.rl_job import is_tokenizer_file


def export(checkpoint: Path, out: Path, *, dtype: str, untie: bool) -> None:
    """Write a Hugging Face folder without optimizer state and manifest.

    Untying serves engines that swap weights in place and keep an old copy of a tied head.
    Raises ConfigError when `out` exists or the checkpoint is broken.
    """
    if out.exists():
        raise ConfigError(f"{out}: exists already; name a new folder")
    manifest = verify(checkpoint)
    model = load_model(checkpoint, torch.device("cpu"))
    if untie and model.config.tie_word_embeddings:
        model.config.tie_word_embeddings = False
        head = model.get_output_embeddings()
        assert isinstance(head, torch.nn.Linear)
        head.weight = torch.nn.Parameter(head.weight.detach().clone())
    model.to(getattr(torch, dtype))  # pyright: ignore[reportArgumentType]  # its wrapper hides the signature
    model.save_pretrained(out, safe_serialization=True)
    for name in manifest.files:
        if is_tokenizer_file(name):
            shutil.copyfile(checkpoint / name, out / name)
