"""A recipe as a job: counts at each rule, the same bytes for any number of workers and after kill -9, bad sources."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml

from config.recipes import load_recipe
from records.data_card import CARD, DataCard
from records.errors import ConfigError
from records.stored import read_record
from tests.trainer.data.recipe_run import run
from trainer.data.recipe_job import Order, build
from trainer.jobs.work_folder import WorkDir

ROOT = Path(__file__).parents[3]
WORDS = [
    f"{colour}{size}"
    for colour in ("red", "blue", "green", "gray")
    for size in ("ish", "est", "er", "ly", "y")
]


def problem(number: int) -> dict[str, Any]:
    """Seeded problems, with a share of every fault that the rules remove."""
    stream = random.Random(number)
    text = (
        " ".join(stream.choice(WORDS) for _ in range(12))
        + f" boxes hold {number % 700} items each. How many?"
    )
    answer: Any = str(number % 700 * 3)
    match number % 50:
        case 1:
            answer = "does not exist"
        case 2:
            answer = "1/2"
        case 3:
            text = "\u6c42 " + text
        case 4:
            answer = "9" * 30
        case 5:
            text, answer = problem(number - 5)["problem"], str(number)
        case 6:
            text, answer = problem(number - 6 + 10)["problem"] + " Please", problem(number + 4)["answer"]
    return {"id": f"p{number}", "problem": text, "answer": answer}


def write_source(path: Path, count: int) -> None:
    with path.open("w") as file:
        for number in range(count):
            file.write("{broken\n" if number % 97 == 96 else json.dumps(problem(number)) + "\n")


def write_recipe(path: Path, **source: Any) -> Path:
    spec = {"name": "s", "file": "s.jsonl", "licence": "CC-BY-NC-4.0", "non_commercial": True} | source
    part = {"sources": [spec], "decontaminate": False}
    path.write_text(yaml.safe_dump({"title": "T", "seed": 3, "problems": part}))
    return path


@pytest.fixture
def made(tmp_path: Path) -> Path:
    write_source(tmp_path / "s.jsonl", 2300)
    write_recipe(tmp_path / "r.yaml")
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "made").iterdir())}


def test_every_row_is_counted_once_and_the_card_carries_the_licence(made: Path) -> None:
    run(made / "r.yaml", made, made / "a")
    card = read_record(DataCard, made / "a" / "made" / CARD, "")
    steps = {step.step: step for step in card.funnels["problems"]}
    counted = 2300 - sum(step.removed for step in card.funnels["problems"])
    rows = pq.read_table(made / "a" / "made" / "problems.parquet").to_pylist()
    assert counted == card.funnels["problems"][-1].left == len(rows) == card.sources[0].num_kept
    assert steps["not_json"].removed == 23
    assert card.sources[0].malformed == {"not_json": 23}
    assert steps["conflicting_answers"].removed == card.num_conflicts > 60
    assert steps["near_duplicate"].removed > 30
    assert {"other_language", "unverifiable_answer", "not_an_integer", "huge_answer"} <= set(steps)
    assert card.sources[0].non_commercial
    assert "Non-commercial parts: s" in (made / "a" / "made" / "card.md").read_text()
    faults = [json.loads(line) for line in (made / "a" / "made" / "malformed.jsonl").read_text().splitlines()]
    assert [fault["number"] for fault in faults] == list(range(96, 2300, 97))
    assert len({row["id"] for row in rows}) == len(rows)


def test_workers_and_shards_change_no_byte(made: Path) -> None:
    run(made / "r.yaml", made, made / "a", workers=1, shard=2000)
    run(made / "r.yaml", made, made / "b", workers=2, shard=700)
    assert contents(made / "a") == contents(made / "b")


@pytest.mark.kill
def test_a_killed_build_goes_on_to_the_same_bytes(made: Path, num_kills: int) -> None:
    run(made / "r.yaml", made, made / "whole")
    command = [sys.executable, "-m", "tests.trainer.data.recipe_run", str(made / "r.yaml"), str(made)]
    stream = random.Random(5)
    for attempt in range(min(num_kills, 4)):
        out = made / f"killed{attempt}"
        process = subprocess.Popen([*command, str(out), "1", "250"], cwd=ROOT, stderr=subprocess.DEVNULL)
        shards = out / "work" / "shards" / "s"
        enough = stream.randint(0, 8)
        while process.poll() is None and len(list(shards.glob("*.arrow"))) < enough:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
        run(made / "r.yaml", made, out, shard=250)
        assert contents(out) == contents(made / "whole")


def refusal(folder: Path, recipe: Path) -> str:
    with pytest.raises(ConfigError) as caught:
        run(recipe, folder, folder / "out")
    assert "\n" not in str(caught.value)
    assert not (folder / "out" / "made" / CARD).exists()
    return str(caught.value)


def test_a_source_that_is_not_there_is_named_with_the_way_to_get_it(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path / "r.yaml", hub="owner/set", gated=True)
    assert "put s.jsonl into runtime.paths.data" in refusal(tmp_path, recipe)
    assert "log in and accept" in refusal(tmp_path, recipe)
    assert "is no published set" in refusal(tmp_path, write_recipe(tmp_path / "r.yaml"))


def test_a_changed_column_and_an_empty_file_are_refused(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path / "r.yaml")
    (tmp_path / "s.jsonl").write_text("\n\n")
    assert "holds no rows" in refusal(tmp_path, recipe)
    rows = [{"id": str(at), "text": "q", "answer": "1"} for at in range(30)]
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert "30 of 30 rows cannot be read, most of them for missing_column" in refusal(tmp_path, recipe)


def test_rules_that_leave_nothing_are_refused(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").write_text(json.dumps({"problem": "q", "answer": "x"}) + "\n")
    assert "the rules leave no problem" in refusal(tmp_path, write_recipe(tmp_path / "r.yaml"))


def test_a_row_of_10_mb_and_rows_of_other_encodings_are_counted(tmp_path: Path) -> None:
    good = [
        json.dumps({"id": f"g{at}", "problem": f"What is {at} + {at}?", "answer": str(2 * at)})
        for at in range(9)
    ]
    huge = json.dumps({"id": "h", "problem": "x" * 10 * 2**20, "answer": "1"})
    lines = [*good[:4], huge, *good[4:]]
    data = (
        "\n".join(lines).encode()
        + b'\n{"id": "l", "problem": "caf\xe9", "answer": "1"}\r\n'
        + b"\xff\xfe\x00\n"
    )
    (tmp_path / "s.jsonl").write_bytes(b"\xef\xbb\xbf" + data)
    run(write_recipe(tmp_path / "r.yaml"), tmp_path, tmp_path / "out")
    card = read_record(DataCard, tmp_path / "out" / "made" / CARD, "")
    assert card.sources[0].malformed == {"not_utf8": 2, "row_too_large": 1}
    assert card.sources[0].num_kept == 9


def test_a_full_disk_is_one_line_and_no_result(tmp_path: Path) -> None:
    write_source(tmp_path / "s.jsonl", 300)
    recipe = write_recipe(tmp_path / "r.yaml")
    order = Order(name="r", recipe=load_recipe(str(recipe)), data=tmp_path)
    (tmp_path / "made").mkdir()
    (tmp_path / "made" / "problems.parquet").symlink_to("/dev/full")
    with (
        WorkDir.open(tmp_path / "work", order.fingerprint) as work,
        pytest.raises(ConfigError, match="no space left"),
    ):
        build(order, work, tmp_path / "made")
    assert not (tmp_path / "made" / CARD).exists()


def test_parquet_is_read_as_jsonl_is(made: Path) -> None:
    import pyarrow as pa

    rows = [problem(number) for number in range(300)]
    pq.write_table(pa.Table.from_pylist(rows), made / "s.parquet")
    (made / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    run(made / "r.yaml", made, made / "a")
    run(write_recipe(made / "p.yaml", file="s.parquet"), made, made / "b")
    tables = [pq.read_table(made / out / "made" / "problems.parquet") for out in ("a", "b")]
    assert tables[0] == tables[1]
