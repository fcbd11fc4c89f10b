"""The copy of a checkpoint that vLLM loads: the model's weights, untied, without other files."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from records.errors import ConfigError
from records.files import read_json
from trainer.engines.untied_copy import untied_folder
from trainer.weights import EMBEDDING, HEAD


def test_the_copy_holds_the_head_and_no_state_of_an_optimizer(tiny_checkpoint: Path, tmp_path: Path) -> None:
    whole = tmp_path / "rl1"
    whole.mkdir()
    for file in tiny_checkpoint.iterdir():
        if file.is_file():
            (whole / file.name).write_bytes(file.read_bytes())
    save_file({"0.0.exp_avg": torch.zeros(2)}, whole / "optimizer.safetensors")
    untied_folder(whole, tmp_path / "copy")
    tensors = {
        name: tensor
        for file in (tmp_path / "copy").glob("*.safetensors")
        for name, tensor in load_file(file).items()
    }
    assert "0.0.exp_avg" not in tensors
    assert torch.equal(tensors[HEAD], tensors[EMBEDDING])
    assert read_json(tmp_path / "copy" / "config.json")["tie_word_embeddings"] is False


def test_a_folder_without_weights_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match=r"holds no model\.embed_tokens\.weight in safetensors"):
        untied_folder(tmp_path / "bare", tmp_path / "copy")
