"""What a preset requires of a machine: by hand for tiny, by name for a model that is absent, and by its own size."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from config.resolve import DEFAULTS, resolve
from trainer.doctor import examine
from trainer.model import random_model
from trainer.needs import Needs, size_of


def preset(name: str, *overrides: str):
    return resolve([DEFAULTS.with_name(f"{name}.yaml")], overrides)


def test_tiny_by_hand() -> None:
    needs = Needs.of(preset("tiny"))
    assert needs.rollouts == 3 * 16 * 16 * 16
    assert needs.sampled_tokens == 16 * 16 * 16 * (144 + 208 + 288)
    assert needs.trained_tokens == 16 * 16 * 8 * (144 + 208 + 288 + 3 * 160)
    assert needs.kv_bytes == 2 * 4 * 3 * 2 * 32 * 262144
    assert any("12,288 rollouts" in line for line in needs.lines())


def test_the_count_of_parameters_is_that_of_the_model() -> None:
    section = preset("tiny").model
    size = size_of(section)
    model = random_model(section, section.vocab_size, 0, 1)
    matrices = sum(p.numel() for p in model.parameters() if p.dim() > 1)
    assert size is not None
    assert size.parameters == matrices


def test_a_folder_is_read_and_an_absent_one_is_estimated_by_its_name(tmp_path: Path) -> None:
    absent = Needs.of(preset("small"))
    assert absent.size is not None
    assert (absent.size.parameters, absent.kv_bytes) == (1.7e9, None)
    dims = {
        "vocab_size": 151936, "hidden_size": 2048, "intermediate_size": 6144, "num_hidden_layers": 28,
        "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128, "tie_word_embeddings": True,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(dims))
    held = Needs.of(preset("small", f"model.path={tmp_path}"))
    assert held.size is not None
    assert held.size.parameters == pytest.approx(1.72e9, rel=0.01)
    assert held.kv_bytes == 28 * 2 * 8 * 128 * 2 * preset("small").rollout.kv_tokens


def test_released_trains_nothing_and_paper_needs_more_disk_than_small() -> None:
    small, paper = (Needs.of(preset(name)) for name in ("small", "paper"))
    released = Needs.of(preset("released"), trains=False)
    assert released.rollouts == 0
    assert released.memory_bytes == 2 * 14e9
    assert small.disk_bytes is not None
    assert paper.disk_bytes is not None
    assert paper.disk_bytes > 5 * small.disk_bytes > 1e11


def test_doctor_compares_the_disk_with_the_presets_own_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage:
        free = 50 * 2**30

    monkeypatch.setattr("trainer.doctor.shutil.disk_usage", lambda _: Usage)
    found = {name: next(f for f in examine(name) if f.what == "disk") for name in ("tiny", "paper")}
    assert (found["tiny"].ok, found["paper"].ok) == (True, False)
