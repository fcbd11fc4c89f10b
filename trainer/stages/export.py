"""`export`: a checkpoint for other programs: another number format, a model card, a template that renders calls."""

from __future__ import annotations

import shutil
from pathlib import Path

import torch

from records.errors import ConfigError
from records.files import write_text
from records.manifest import verify
from trainer.model import load_model
from trainer.stages.base_checkpoint import TEMPLATE
from trainer.stages.model_card import model_card
from trainer.stages.rl_job import is_tokenizer_file
from trainer.stages.serving_template import serving_template
from trainer.weights import one_line


def export(checkpoint: Path, out: Path, *, dtype: str, untie: bool) -> None:
    """Write a Hugging Face folder with a model card, without optimizer state and manifest.

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
    template = out / TEMPLATE
    if template.is_file():
        write_text(template, serving_template(template.read_text("utf-8")))
    write_text(out / "README.md", model_card(checkpoint, manifest, dtype=dtype))


def push(folder: Path, repository: str) -> str:
    """Upload an exported folder to a private repository of the Hugging Face hub; returns its address.

    Raises ConfigError when the hub refuses or cannot be reached.
    """
    from huggingface_hub import HfApi

    try:
        hub = HfApi()
        address = hub.create_repo(repository, private=True, exist_ok=True)
        hub.upload_folder(repo_id=repository, folder_path=folder)
    except Exception as error:  # of any kind: a bad name, no token, no network
        raise ConfigError(
            f"--push {repository}: the hub did not take it ({one_line(error)}); log in with `hf auth login`; the "
            f"export stays in {folder}"
        ) from None
    return str(address)
