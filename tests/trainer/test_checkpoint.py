"""A published checkpoint: equal weights give equal bytes, and an export scores like its checkpoint."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from config.commands import BASE
from records.errors import ConfigError
from records.manifest import MANIFEST, RUN, verify, write_folder
from tests.trainer.tiny_checkpoint import make_checkpoint, tiny_config
from trainer.model import load_model
from trainer.rollout.tokenizer import FolderCodec
from trainer.stages.base_checkpoint import make_base
from trainer.stages.export import export


def test_equal_weights_give_equal_checkpoints(tiny_checkpoint: Path, tmp_path: Path) -> None:
    again = make_checkpoint(tmp_path)
    assert (again / MANIFEST).read_bytes() == (tiny_checkpoint / MANIFEST).read_bytes()


@pytest.mark.parametrize("untie", [False, True])
def test_an_export_loads_and_scores_like_its_checkpoint(
    untie: bool, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    export(tiny_checkpoint, out, dtype="float32", untie=untie)
    cpu = torch.device("cpu")
    original, exported = load_model(tiny_checkpoint, cpu), load_model(out, cpu)
    ids = torch.arange(12)[None]
    with torch.no_grad():
        assert torch.equal(original(ids).logits, exported(ids).logits)
    assert exported.config.tie_word_embeddings is not untie
    assert ("lm_head.weight" in dict(exported.named_parameters())) is untie
    text = "The sum of 12"
    assert FolderCodec.load(out).encode(text) == FolderCodec.load(tiny_checkpoint).encode(text)
    assert not (out / MANIFEST).exists()
    with pytest.raises(ConfigError, match="exists already"):
        export(tiny_checkpoint, out, dtype="float32", untie=untie)


def test_a_checkpoint_of_the_suite_can_be_the_pretrained_model_of_a_run(
    tiny_checkpoint: Path, tmp_path: Path, torch_settings: None
) -> None:
    config = tiny_config(f"model.path={tiny_checkpoint}", f"runtime.paths.results={tmp_path}")
    corpus, made = config.runtime.folder.corpus, tmp_path / "made"
    made.mkdir()
    (made / "documents.jsonl").write_text("")
    write_folder(corpus, made, {"stage": "corpus", "parent": None, "data": None}, {})
    base = make_base(BASE.of(config), config.runtime)
    assert verify(config.runtime.folder.checkpoint("base")) == base
    assert "model.safetensors" in base.files
    assert not {MANIFEST, RUN} & set(base.files)
    config = tiny_config("model.path=absent", f"runtime.paths.results={tmp_path}")
    with pytest.raises(ConfigError, match=r"absent: holds no config\.json"):
        make_base(BASE.of(config), config.runtime)
