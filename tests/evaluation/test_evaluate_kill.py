"""kill -9 at seeded moments of an evaluation, start again: the samples file of an unbroken one, nothing doubled."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

from records.trajectory import IdsSource
from records.trajectory_files import read_parquet
from tests.evaluation.rings import RINGS, make_run
from tests.trainer.server import Server

pytestmark = [pytest.mark.kill, pytest.mark.timeout(3600)]

SEED = 6
NUM_PROBLEMS, K = 6, 4
LOCAL = (
    ("decode", "trainer.engines.local", "LocalEngine.advance", 90),
    ("grade", "evaluation.questions", "Questions.grade", len(RINGS) * NUM_PROBLEMS * K),
    ("shard", "trainer.rollout.sample_chunks", "write_shard", len(RINGS)),
    ("samples", "records.trajectory_files", "write_parquet", 1),
    ("summary", "records.files", "write_json", 3),
)
REMOTE = (
    ("answer", "trainer.rollout.loop", "RolloutLoop._end_turn", NUM_PROBLEMS * K),
    ("journal", "trainer.rollout.sample_chunks", "_append", NUM_PROBLEMS * K),
    ("shard", "trainer.rollout.sample_chunks", "write_shard", 1),
)
"""What is happening, module, function, how often an evaluation calls it."""


def moments(kinds: tuple[tuple[str, str, str, int], ...], count: int) -> list[str]:
    """KILL_MOMENT of `count` seeded moments, the kinds in turn."""
    rng = random.Random(SEED)
    chosen = []
    for index in range(count):
        _, module, function, calls = kinds[index % len(kinds)]
        chosen.append(
            f"evaluation/__main__.py run|{module}|{function}|{rng.randint(1, calls)}|{rng.choice(('before', 'after'))}"
        )
    return chosen


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run with a random checkpoint and the test rings."""
    return make_run(tmp_path_factory.mktemp("run"), NUM_PROBLEMS)


def evaluate(
    project: Path, root: Path, out: Path, *arguments: str, moment: str | None = None
) -> subprocess.CompletedProcess[str]:
    """The command in a process group of its own, which dies as a whole."""
    folders = [str(project)]
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    if moment is not None:
        folders.insert(0, str(project / "tests" / "pipeline" / "moments"))
        environment["KILL_MOMENT"] = moment
    environment["PYTHONPATH"] = os.pathsep.join(folders)
    command = [
        sys.executable,
        "-m",
        "evaluation",
        "run",
        "--checkpoint",
        str(root / "checkpoints" / "sft"),
    ]
    command += ["--out", str(out), "-k", str(K), "--set", "eval.max_response=32", *arguments]
    return subprocess.run(
        command, cwd=project, env=environment, capture_output=True, text=True, start_new_session=True
    )


def keys(out: Path) -> list[tuple]:
    return [trajectory.key for trajectory in read_parquet(out / "samples.parquet")]


def test_a_killed_evaluation_ends_like_an_uninterrupted_one(
    project_root: Path, root: Path, tmp_path: Path, num_kills: int
) -> None:
    arguments = [part for ring in RINGS for part in ("--benchmark", f"procedural-{ring}")]
    arguments += ["--control", "tool_off"]
    straight = tmp_path / "straight"
    done = evaluate(project_root, root, straight, *arguments)
    assert done.returncode == 0, done.stderr
    for number, moment in enumerate(moments(LOCAL, num_kills)):
        out = tmp_path / f"killed{number}"
        first = evaluate(project_root, root, out, *arguments, moment=moment)
        assert first.returncode == -9, f"{moment}: the kill never came: {first.stderr[-2000:]}"
        second = evaluate(project_root, root, out, *arguments)
        assert second.returncode == 0, f"{moment}: {second.stderr[-2000:]}"
        for name in ("samples.parquet", "summary.json"):
            assert (out / name).read_bytes() == (straight / name).read_bytes(), f"{moment}: {name}"
    print(f"{num_kills} of {num_kills} killed evaluations ended byte-equal")


def test_another_model_at_the_same_address_starts_from_the_beginning(
    project_root: Path, root: Path, tmp_path: Path
) -> None:
    """A server that restarts between two halves of an evaluation must not give one score of two models."""
    server = Server(
        lambda body, number: {"choices": [{"text": "<answer>3</answer>", "finish_reason": "stop"}]}
    )
    arguments = ["--benchmark", "procedural-numbers", "--endpoint", server.base]
    try:
        first = evaluate(project_root, root, tmp_path / "out", *arguments, moment=moments(REMOTE, 1)[0])
        assert first.returncode == -9, first.stderr[-2000:]
        assert (tmp_path / "out" / "work").exists()
        del server.requests[:]
        server.name = "another"
        second = evaluate(project_root, root, tmp_path / "out", *arguments)
        assert second.returncode == 0, second.stderr[-2000:]
        assert len(server.requests) == NUM_PROBLEMS * K
        assert json.loads((tmp_path / "out" / "summary.json").read_text())["served_model"] == "another"
    finally:
        server.close()


def test_a_killed_endpoint_evaluation_requests_only_missing_samples(
    project_root: Path, root: Path, tmp_path: Path, num_kills: int
) -> None:
    """The server answers a prompt and a seed always alike; what was journalled is not asked again."""
    server = Server(
        lambda body, number: {
            "choices": [{"text": f"<answer>{body['seed'] % 7}</answer>", "finish_reason": "stop"}]
        }
    )
    arguments = ["--benchmark", "procedural-numbers", "--endpoint", server.base]
    try:
        straight = tmp_path / "straight"
        done = evaluate(project_root, root, straight, *arguments)
        assert done.returncode == 0, done.stderr
        for number, moment in enumerate(moments(REMOTE, min(num_kills, len(REMOTE)))):
            out = tmp_path / f"killed{number}"
            first = evaluate(project_root, root, out, *arguments, moment=moment)
            assert first.returncode == -9, f"{moment}: the kill never came: {first.stderr[-2000:]}"
            kept = sum(
                line.endswith("}\n")
                for part in (out / "work").glob("*/*.journal*")
                for line in part.open(encoding="utf-8")
            ) + sum(len(part.read_text().splitlines()) for part in (out / "work").glob("*/*.jsonl"))
            del server.requests[:]
            second = evaluate(project_root, root, out, *arguments)
            assert second.returncode == 0, f"{moment}: {second.stderr[-2000:]}"
            assert len(server.requests) == NUM_PROBLEMS * K - min(kept, NUM_PROBLEMS * K), moment
            assert (out / "samples.parquet").read_bytes() == (straight / "samples.parquet").read_bytes(), (
                moment
            )
    finally:
        server.close()
    found = keys(straight)
    assert len(found) == NUM_PROBLEMS * K
    assert all(one != other for one, other in pairwise(found))
    assert {t.ids_source for t in read_parquet(straight / "samples.parquet")} == {IdsSource.RETOKENISED}
