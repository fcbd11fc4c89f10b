"""A checkpoint is read completely or refused by name: no random, dropped or generic part."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from safetensors.torch import load_file, save_file

from evaluation.conversations.native_chat import NativeChat
from records.errors import ConfigError
from records.trajectory import SCHEMA_VERSION
from records.trajectory_files import read_parquet
from tests.trainer.tiny_checkpoint import tiny_config
from trainer.engines.decoder import Decoder
from trainer.model import head_weight, load_model
from trainer.rollout.chat import ChatFormat
from trainer.rollout.tokenizer import FolderCodec, transformers_tokenizer
from trainer.sft.sft import require_documents
from trainer.stages.base_checkpoint import _copy_pretrained
from trainer.stages.export import export
from trainer.update.grpo import GrpoTrainer
from trainer.update.training_rows import Row

CPU = torch.device("cpu")
DOWN = "model.layers.1.mlp.down_proj.weight"
Tensors = dict[str, torch.Tensor]


def _settings(**changes: Any) -> Callable[[Tensors, Path], None]:
    def change(tensors: Tensors, folder: Path) -> None:
        path = folder / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | changes))

    return change


def _drop(*names: str) -> Callable[[Tensors, Path], None]:
    def change(tensors: Tensors, folder: Path) -> None:
        for name in [n for n in tensors if any(n.startswith(start) for start in names)]:
            del tensors[name]

    return change


def _put(name: str, tensor: torch.Tensor) -> Callable[[Tensors, Path], None]:
    return lambda tensors, folder: tensors.update({name: tensor})


DAMAGES: dict[str, tuple[Callable[[Tensors, Path], None], str]] = {
    "a tensor missing": (_drop(DOWN), f"{DOWN} are missing"),
    "a layer left out": (_drop("model.layers.0."), "and 8 more are missing"),
    "no embedding": (_drop("model.embed_tokens"), "model.embed_tokens.weight are missing"),
    "no final norm": (_drop("model.norm"), "model.norm.weight are missing"),
    "an untied head missing": (_settings(tie_word_embeddings=False), "lm_head.weight are missing"),
    "a head that would be dropped": (_put("lm_head.weight", torch.zeros(320, 64)), "lm_head.weight differs"),
    "another shape": (_put(DOWN, torch.zeros(64, 95)), f"{DOWN} have another shape"),
    "a scalar that would spread": (_put("model.norm.weight", torch.ones(1)), "have another shape"),
    "a layer too many": (_put(DOWN.replace("1", "2"), torch.zeros(64, 96)), "have no place in the model"),
    "a config of fewer layers": (
        _settings(num_hidden_layers=1, layer_types=None),
        "have no place in the model",
    ),
    "a config of more layers": (_settings(num_hidden_layers=3, layer_types=None), "are missing"),
    "a config that contradicts itself": (_settings(num_hidden_layers=1), "num_hidden_layers"),
    "a config of other sizes": (_settings(intermediate_size=97), "have another shape"),
    "a tensor of NaN": (_put(DOWN, torch.full((64, 96), float("nan"))), f"{DOWN} hold numbers"),
}


def damaged(checkpoint: Path, to: Path, change: Callable[[Tensors, Path], None]) -> Path:
    shutil.copytree(checkpoint, to)
    tensors = load_file(checkpoint / "model.safetensors")
    change(tensors, to)
    save_file(tensors, to / "model.safetensors", metadata={"format": "pt"})
    (to / "manifest.json").unlink()
    return to


@pytest.mark.parametrize("name", DAMAGES)
def test_an_incomplete_checkpoint_is_refused_with_its_tensor(
    name: str, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    change, words = DAMAGES[name]
    folder = damaged(tiny_checkpoint, tmp_path / "c", change)
    made = tmp_path / "made"
    made.mkdir()
    loads: list[Callable[[], Any]] = [
        lambda: load_model(folder, CPU),
        lambda: Decoder.from_folder(folder, max_len=64, device="cpu", dtype=torch.float32),
        lambda: GrpoTrainer(folder, tiny_config().objective, CPU),
        lambda: _copy_pretrained(folder, made, ChatFormat(system="brief", tool_name="python")),
    ]
    for load in loads:
        with pytest.raises(ConfigError) as refused:
            load()
        assert words in str(refused.value)
        assert str(folder) in str(refused.value) or "model.path" in str(refused.value)
        assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "damage", ["no folder", "no config", "no weights", "half the weights", "empty weights"]
)
def test_a_folder_without_a_model_is_one_line(damage: str, tiny_checkpoint: Path, tmp_path: Path) -> None:
    folder = tmp_path / "c"
    shutil.copytree(tiny_checkpoint, folder)
    weights = folder / "model.safetensors"
    match damage:
        case "no folder":
            shutil.rmtree(folder)
        case "no config":
            (folder / "config.json").unlink()
        case "no weights":
            weights.unlink()
        case "half the weights":
            weights.write_bytes(weights.read_bytes()[: weights.stat().st_size // 2])
        case "empty weights":
            weights.write_bytes(b"")
    for load in (
        lambda: load_model(folder, CPU),
        lambda: Decoder.from_folder(folder, max_len=64, device="cpu", dtype=torch.float32),
    ):
        with pytest.raises(ConfigError) as refused:
            load()
        assert str(folder) in str(refused.value)
        assert "\n" not in str(refused.value)


def test_a_tied_head_that_equals_its_embedding_is_accepted(tiny_checkpoint: Path, tmp_path: Path) -> None:
    embedding = load_file(tiny_checkpoint / "model.safetensors")["model.embed_tokens.weight"]
    folder = damaged(tiny_checkpoint, tmp_path / "c", _put("lm_head.weight", embedding.clone()))
    assert torch.equal(head_weight(load_model(folder, CPU)), embedding)


def test_an_export_of_an_incomplete_checkpoint_is_refused(tiny_checkpoint: Path, tmp_path: Path) -> None:
    folder = damaged(tiny_checkpoint, tmp_path / "c", _drop(DOWN))
    with pytest.raises(ConfigError):
        export(folder, tmp_path / "out", dtype="float32", untie=False)
    assert not (tmp_path / "out").exists()


def test_saved_weights_of_another_shape_are_not_spread_over_the_model(
    tiny_checkpoint: Path, tmp_path: Path
) -> None:
    trainer = GrpoTrainer(tiny_checkpoint, tiny_config().objective, CPU)
    trainer.save(tmp_path)
    path = tmp_path / "weights.safetensors"
    tensors = load_file(path)
    for change in (_put("model.norm.weight", torch.ones(1)), _drop(DOWN), _put("extra", torch.ones(1))):
        changed = dict(tensors)
        change(changed, tmp_path)
        save_file(changed, path)
        with pytest.raises(ConfigError, match="do not fit the model"):
            trainer.load_weights(path)


# --- tokenizers ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("damage", ["of another model", "empty vocabulary", "cut", "missing", "no folder"])
def test_a_tokenizer_that_is_not_the_models_own_is_refused(
    damage: str, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "c"
    shutil.copytree(tiny_checkpoint, folder)
    path = folder / "tokenizer.json"
    match damage:
        case "of another model":
            record = json.loads(path.read_text())
            record["added_tokens"][-1]["id"] = 50_000
            path.write_text(json.dumps(record))
            _settings(vocab_size=300)({}, folder)
        case "empty vocabulary":
            record = json.loads(path.read_text())
            record["model"]["vocab"], record["model"]["merges"] = {}, []
            path.write_text(json.dumps(record))
        case "cut":
            path.write_text(path.read_text()[:1000])
        case "missing":
            path.unlink()
        case "no folder":
            shutil.rmtree(folder)
    with pytest.raises(ConfigError) as refused:
        FolderCodec.load(folder)
    assert str(folder) in str(refused.value)
    assert "\n" not in str(refused.value)
    if damage == "no folder":
        assert "does not exist" in str(refused.value)


def test_a_generic_tokenizer_is_refused(
    tiny_checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`transformers` makes a generic tokenizer of one entry if the files of its class are missing."""
    folder = tmp_path / "c"
    shutil.copytree(tiny_checkpoint, folder)
    assert len(transformers_tokenizer(folder)) == FolderCodec.load(folder).num_entries
    from transformers import AutoTokenizer

    hollow = tmp_path / "hollow"
    hollow.mkdir()
    shutil.copy(folder / "config.json", hollow)
    generic = AutoTokenizer.from_pretrained(str(hollow), local_files_only=True)
    assert len(generic) < 10
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", lambda *args, **kwargs: generic)
    with pytest.raises(ConfigError, match="loads a generic"):
        transformers_tokenizer(folder)


def test_a_broken_tokenizer_config_does_not_fall_back_to_plain_chatml(
    tiny_checkpoint: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "c"
    shutil.copytree(tiny_checkpoint, folder)
    (folder / "chat_template.jinja").unlink()
    (folder / "tokenizer_config.json").write_text('{"chat_template": "{{ mess')
    with pytest.raises(ConfigError, match=r"tokenizer_config\.json: is not JSON"):
        NativeChat.of(folder)


# --- what else a stage reads -----------------------------------------------------------------------------


def test_sft_refuses_no_documents_and_a_document_longer_than_the_model(
    tiny_checkpoint: Path,
) -> None:
    def row(length: int, on: bool = True) -> Row:
        return Row(
            ids=[1] * length, mask=[on] * length, logprob=[0.0] * length, advantage=1.0, group=f"d{length}"
        )

    path, limit = Path("documents.jsonl"), tiny_config().model.max_positions
    require_documents([row(5), row(limit)], tiny_checkpoint, path)
    for rows in ([], [row(5, on=False)]):
        with pytest.raises(ConfigError, match=r"documents\.jsonl: holds no document"):
            require_documents(rows, tiny_checkpoint, path)
    with pytest.raises(ConfigError, match=rf"document 'd{limit + 1}' takes {limit + 1}"):
        require_documents([row(5), row(limit + 1)], tiny_checkpoint, path)


def test_another_parquet_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"schema_version": [SCHEMA_VERSION], "run": ["r"]}), path)
    with pytest.raises(ConfigError, match="is not a file of trajectories"):
        read_parquet(path)
