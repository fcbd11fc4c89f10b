"""Problem files: written once, read with every fault reported by file and line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from config.commands import PREPARE, PrepareView
from config.resolve import resolve
from records.errors import ConfigError
from records.manifest import verify
from records.problem import Problem
from records.problem_params import Generated
from trainer.problems.prepare import RING, prepare
from trainer.problems.problem_files import load_split, pool_digest, read_problems, write_problems

GOOD = {"id": "a", "prompt": "what?", "answer": "4"}
SMALL = [
    "data.num_sft=12", "data.num_train=8", "data.num_dev=4", "data.num_test=4", "runtime.run=r",
    "sft.batch_size=4", "objective.prompts_per_step=4",
]  # fmt: skip


def refusal(path: Path, *lines: str) -> str:
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        read_problems(path)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_problems_with_any_text_survive_a_round_trip(tmp_path: Path) -> None:
    problems = [
        Problem(
            id="a",
            prompt="\u2028 \u0085 \x1c \U0001f600",
            answer="\\frac{1}{2}",
            family="f",
            level=2,
            params=Generated(family="lcm", values=(30, 12)),
        ),
        Problem(id="b", prompt="q", answer="0"),
    ]
    write_problems(problems, tmp_path / "p.jsonl")
    assert read_problems(tmp_path / "p.jsonl") == problems


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: not JSON"),
        ("[]", "line 2: has no id"),
        (json.dumps({**GOOD, "id": "b", "answer": " "}), "line 2: has no answer"),
        (json.dumps({"id": "b", "prompt": "q"}), "line 2: has no answer"),
        (json.dumps({**GOOD, "id": "b", "answer": 0}), "each a string"),
        (json.dumps({**GOOD, "id": "b", "prompt": None}), "line 2: has no prompt"),
        (json.dumps({**GOOD, "id": "b", "colour": 1}), "colour"),
        (json.dumps(GOOD), "two problems are called 'a'"),
    ],
)
def test_a_wrong_line_is_reported_with_its_fault(line: str, message: str, tmp_path: Path) -> None:
    line = refusal(tmp_path / "p.jsonl", json.dumps(GOOD), line)
    assert message in line
    assert "p.jsonl" in line


def test_the_digest_of_a_pool_covers_its_problems_but_not_their_order() -> None:
    pool = [Problem(id=name, prompt="q", answer="1") for name in "abc"]
    assert pool_digest(pool) == pool_digest(pool[::-1])
    changed = [*pool[:2], Problem(id="c", prompt="q", answer="2")]
    assert pool_digest(pool) != pool_digest(changed)


def test_all_splits_are_published_with_their_counts_and_equal_again(tmp_path: Path) -> None:
    config = resolve(overrides=[*SMALL, f"runtime.paths.results={tmp_path}"])
    manifest = prepare(PREPARE.of(config), config.runtime)
    folder = config.runtime.folder.data
    assert verify(folder) == manifest
    assert manifest.facts["duplicates"] == {"exact": 0, "params": 0}
    counts = manifest.facts["num_problems"]
    assert (counts["sft"], counts["train"], counts["dev"]) == (12, 8, 4)
    assert {ring: counts[stem] for ring, stem in RING.items()} == {
        "numbers": 4,
        "composition": 4,
        "wording": 1,
        "family": 3,
    }
    assert len(load_split(config.runtime, "train")) == 8
    assert prepare(PREPARE.of(config), config.runtime) == manifest
    (folder / "train.jsonl").write_text("")
    with pytest.raises(ConfigError, match=r"train\.jsonl: sha256"):
        load_split(config.runtime, "dev")


def test_data_that_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    config = resolve(overrides=[*SMALL, f"runtime.paths.results={tmp_path}"])
    with pytest.raises(ConfigError, match=r"data\.source = 'mine'"):
        prepare(PrepareView(data=config.data.model_copy(update={"source": "mine"})), config.runtime)
    assert not (tmp_path / "r" / "data" / "manifest.json").exists()
