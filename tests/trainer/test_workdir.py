"""The working folder: a job that dies at any moment resumes from a complete state of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from records.errors import ConfigError
from trainer.jobs.work_folder import WorkDir


def writer(text: str):
    def write(folder: Path) -> None:
        (folder / "weights").write_text(text)
        (folder / "optimizer").write_text(text * 2)

    return write


def states(path: Path) -> list[str]:
    return sorted(p.name for p in path.glob("step-*"))


def newest_step(path: Path, fingerprint: str = "a") -> int | None:
    with WorkDir.open(path, fingerprint) as work:
        newest = work.newest()
    return None if newest is None else newest[0]


def test_damaged_states_do_not_push_out_new_ones(tmp_path: Path) -> None:
    with WorkDir.open(tmp_path / "rl1", "a") as work:
        for step in (110, 120):
            work.save(step, writer("x"))
            (work.path / f"step-{step:06d}" / "weights").write_text("damaged")
        assert work.newest() is None
        work.begin_attempt(0)
        work.save(4, writer("four"))
        newest = work.newest()
        assert newest is not None
        assert newest[0] == 4


def test_another_job_sets_the_old_folder_aside_and_reports_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "rl1"
    with WorkDir.open(path, "a") as work:
        work.save(4, writer("four"))
        work.append("metrics", {"step": 4})
    assert capsys.readouterr().out == ""
    assert newest_step(path, "b") is None
    aside = tmp_path / ".old" / "rl1-a"
    assert capsys.readouterr().out == (
        f"{path}: holds work of another configuration, which is set aside as {aside}\n"
    )
    assert not (path / "metrics.jsonl").exists()
    assert (aside / "step-000004" / "weights").read_text() == "four"
    assert newest_step(path, "b") is None
    assert len(list((tmp_path / ".old").iterdir())) == 1
    assert capsys.readouterr().out == ""


def test_alternating_configurations_find_their_work(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, steps = tmp_path / "rl1", {"a": 0, "b": 0, "c": 0}
    for turn, name in enumerate("abababcacbabc"):
        with WorkDir.open(path, name) as work:
            newest = work.newest()
            assert (newest[0] if newest else 0) == steps[name], f"turn {turn}"
            work.begin_attempt(steps[name])
            steps[name] += 1
            work.append("metrics", {"step": steps[name], "of": name})
            work.save(steps[name], writer(f"{name}{steps[name]}"))
            lines = (path / "metrics.jsonl").read_text().splitlines()
            assert [json.loads(line)["of"] for line in lines] == [name] * steps[name]
    printed = capsys.readouterr().out
    assert printed.count("is set aside as") == 12
    assert printed.count("resumes the work of this configuration") == 10
    assert len(list((tmp_path / ".old").iterdir())) == 2


def test_skipped_states_are_not_restored(
    tmp_path: Path,
) -> None:
    """The folder of damaged states has the same fingerprint, and its name sorts last."""
    with WorkDir.open(tmp_path / "rl1", "a") as work:
        for step in (1, 2):
            work.save(step, writer("x"))
        (work.path / "step-000002" / "weights").write_text("damaged")
        newest = work.newest()
        assert newest is not None
        work.begin_attempt(newest[0])
        work.save(2, writer("x"))
    assert newest_step(tmp_path / "rl1", "b") is None
    assert newest_step(tmp_path / "rl1", "a") == 2


def test_of_several_folders_set_aside_the_furthest_one_is_restored(tmp_path: Path) -> None:
    for number, step in enumerate((3, 9, 4), start=1):
        with WorkDir.open(tmp_path / f"made{number}", "a") as work:
            work.save(step, writer("x"))
        (tmp_path / ".old").mkdir(exist_ok=True)
        (tmp_path / f"made{number}").rename(tmp_path / ".old" / f"rl1-a-{number}")
    assert newest_step(tmp_path / "rl1", "a") == 9


def test_a_folder_without_work_is_neither_kept_nor_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "eval"
    for name in ("a", "b", "a"):
        with WorkDir.open(path, name) as work:
            (work.path / ".fingerprint.json.9.tmp").write_text("left by a kill")
    assert not (tmp_path / ".old").exists()
    assert capsys.readouterr().out == ""


class Killed(BaseException):
    """Simulates the death of the machine."""


@pytest.mark.parametrize("before", [True, False])
def test_a_crash_during_any_rename_loses_no_work(
    before: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each operation of the change A, B, A in turn is the last one; every configuration then finds its state."""
    names = ("replace", "mkdir", "unlink", "rmdir")
    real = {name: getattr(Path, name) for name in names}
    num_moments = 0
    for moment in range(100):
        path = tmp_path / f"{moment}-{before}" / "rl1"
        for name in "ab":
            with WorkDir.open(path, name) as work:
                work.append("metrics", {"step": 1, "of": name})
                work.save(1, writer(name))
        left = [moment]

        def dying(name: str, left: list[int] = left) -> Any:
            def act(self: Path, *args: Any, **kwargs: Any) -> Any:
                left[0] -= 1
                if before and left[0] < 0:
                    raise Killed
                result = real[name](self, *args, **kwargs)
                if left[0] < 0:
                    raise Killed
                return result

            return act

        with monkeypatch.context() as patched:
            for name in names:
                patched.setattr(Path, name, dying(name))
            try:
                with WorkDir.open(path, "a"):
                    pass
            except Killed:
                num_moments += 1
            survived = left[0] >= 0
        for name in "bab":
            with WorkDir.open(path, name) as work:
                newest = work.newest()
                assert newest is not None, f"moment {moment}: {name} is lost"
                assert (newest[1] / "weights").read_text() == name
        if survived:
            break
    assert num_moments >= 4


def test_a_damaged_fingerprint_is_repaired_from_a_state(tmp_path: Path) -> None:
    path = tmp_path / "rl1"
    with WorkDir.open(path, "a") as work:
        work.save(4, writer("four"))
    (path / "fingerprint.json").write_text("{")
    assert newest_step(path) == 4
    assert json.loads((path / "fingerprint.json").read_text()) == {"fingerprint": "a"}


def test_a_folder_without_a_readable_fingerprint_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "rl1"
    for _ in range(2):
        with WorkDir.open(path, "a") as work:
            work.append("metrics", {"step": 1})
        (path / "fingerprint.json").write_text("{")
        assert newest_step(path) is None
    assert sorted(folder.name for folder in (tmp_path / ".old").iterdir()) == ["rl1-unknown", "rl1-unknown-2"]


def test_two_states_are_kept_and_older_ones_go(tmp_path: Path) -> None:
    with WorkDir.open(tmp_path / "w", "a") as work:
        for step in (1, 2, 3, 10):
            work.save(step, writer(str(step)))
        assert states(work.path) == ["step-000003", "step-000010"]
        work.save(10, writer("again"))
        newest = work.newest()
        assert newest is not None
        assert (newest[1] / "weights").read_text() == "again"


@pytest.mark.parametrize("damage", ["cut", "changed", "missing", "no index", "broken index", "odd index"])
def test_a_damaged_state_is_skipped_and_reported(
    damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "w"
    with WorkDir.open(path, "a") as work:
        work.save(1, writer("one"))
        work.save(2, writer("two"))
    state = path / "step-000002"
    match damage:
        case "cut":
            os.truncate(state / "weights", 1)
        case "changed":
            (state / "weights").write_text("owt")
        case "missing":
            (state / "optimizer").unlink()
        case "no index":
            (state / "index.json").unlink()
        case "broken index":
            (state / "index.json").write_text("{")
        case "odd index":
            (state / "index.json").write_text('{"step": 2, "files": []}')
    assert newest_step(path) == 1
    assert f"{state}: damaged, skipped" in capsys.readouterr().out


def test_a_failed_save_leaves_only_the_older_state(tmp_path: Path) -> None:
    path = tmp_path / "w"

    def fails(folder: Path) -> None:
        (folder / "weights").write_text("half")
        raise OSError(28, "No space left on device")

    with WorkDir.open(path, "a") as work:
        work.save(1, writer("one"))
        with pytest.raises(OSError, match="No space left"):
            work.save(2, fails)
        assert states(path) == ["step-000001"]
    assert newest_step(path) == 1


def test_journals_are_cut_back_to_the_step_that_is_resumed(tmp_path: Path) -> None:
    """Lines of lost steps and half-written lines go; the list of attempts stays."""
    with WorkDir.open(tmp_path / "w", "a") as work:
        work.begin_attempt(0)
        for step in (1, 2, 3, 4):
            work.append("metrics", {"step": step, "x": 0.1})
            work.append("timing", {"step": step, "step_s": 1.5})
            if step == 2:
                work.save(step, writer("two"))
        work.append("clocks", {"step": 4})
        with (work.path / "metrics.jsonl").open("a") as file:
            file.write('{"step": 5, "x"')
        work.begin_attempt(2)
        for journal in ("metrics", "timing"):
            lines = (work.path / f"{journal}.jsonl").read_text().splitlines()
            assert [json.loads(line)["step"] for line in lines] == [1, 2]
        assert (work.path / "clocks.jsonl").read_text() == ""
        work.append("metrics", {"step": 3, "x": 0.2})
        lines = (work.path / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line)["step"] for line in lines] == [1, 2, 3]
        assert work.num_attempts() == 2
        work.begin_attempt(0)
        assert (work.path / "metrics.jsonl").read_text() == "", "no state is left"


def four_steps(path: Path) -> None:
    """A job of four steps with a state after each; the last two states are kept."""
    with WorkDir.open(path, "a") as work:
        for step in (1, 2, 3, 4):
            shard = path / "shards" / f"{step}.jsonl"
            shard.parent.mkdir(exist_ok=True)
            shard.write_text(f"samples of step {step}\n")
            work.seal(step, shard)
            work.append("metrics", {"step": step})
            work.append("timing", {"step": step, "s": 0.5})
            work.save(step, writer(str(step)))


def _double(path: Path) -> None:
    path.write_bytes(path.read_bytes() * 2)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _swap(path: Path, other: Path) -> None:
    one, two = path.read_bytes(), other.read_bytes()
    path.write_bytes(two)
    other.write_bytes(one)


DAMAGES: dict[str, tuple[Callable[[Path], object], int | None, str]] = {
    "metrics cut": (lambda p: _cut(p / "metrics.jsonl"), None, "metrics.jsonl is cut or changed"),
    "metrics without its last line": (
        lambda p: os.truncate(p / "metrics.jsonl", 39), 3, "metrics.jsonl is cut or changed",
    ),
    "metrics emptied": (lambda p: os.truncate(p / "metrics.jsonl", 0), None, "metrics.jsonl is cut or changed"),
    "metrics missing": (lambda p: (p / "metrics.jsonl").unlink(), None, "metrics.jsonl is missing"),
    "metrics changed": (
        lambda p: (p / "metrics.jsonl").write_text((p / "metrics.jsonl").read_text().replace("4", "3")), 3, "changed",
    ),
    "metrics doubled": (lambda p: _double(p / "metrics.jsonl"), 4, ""),
    "journals swapped": (lambda p: _swap(p / "metrics.jsonl", p / "timing.jsonl"), None, "is cut or changed"),
    "last shard cut": (lambda p: _cut(p / "shards" / "4.jsonl"), 3, "4.jsonl is cut or changed"),
    "last shard missing": (lambda p: (p / "shards" / "4.jsonl").unlink(), 3, "4.jsonl is missing"),
    "last shard doubled": (lambda p: _double(p / "shards" / "4.jsonl"), 3, "4.jsonl is cut or changed"),
    "first shard emptied": (lambda p: os.truncate(p / "shards" / "1.jsonl", 0), None, "1.jsonl is cut or changed"),
    "shards swapped": (lambda p: _swap(p / "shards" / "3.jsonl", p / "shards" / "4.jsonl"), None, "3.jsonl is cut"),
    "list of files emptied": (lambda p: os.truncate(p / "files.jsonl", 0), None, "files.jsonl is cut or changed"),
    "weights swapped": (
        lambda p: _swap(p / "step-000003" / "weights", p / "step-000004" / "weights"), None, "weights differs",
    ),
    "indexes swapped": (
        lambda p: _swap(p / "step-000003" / "index.json", p / "step-000004" / "index.json"), None, "is that of step 3",
    ),
    "attempts broken": (lambda p: (p / "attempts.jsonl").write_bytes(b"\xff\n{"), 4, ""),
}  # fmt: skip
"""Damage to the folder, the step that is resumed (None: none), and the message about the newest state."""


@pytest.mark.parametrize("name", DAMAGES)
def test_a_state_is_valid_only_with_undamaged_journals_and_files(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    damage, step, words = DAMAGES[name]
    path = tmp_path / "w"
    four_steps(path)
    damage(path)
    with WorkDir.open(path, "a") as work:
        if step != 4:
            with pytest.raises(ConfigError, match="nothing is published"):
                work.require_whole(4)
        newest = work.newest()
        assert (newest[0] if newest else None) == step
        if words:
            assert words in next(
                line for line in capsys.readouterr().out.splitlines() if "step-000004" in line
            )
        work.begin_attempt(step or 0)
        lines = (path / "metrics.jsonl").read_text().splitlines() if (path / "metrics.jsonl").exists() else []
        assert [json.loads(line)["step"] for line in lines] == list(range(1, (step or 0) + 1))
        kept = [*path.glob("step-*"), *tmp_path.glob(".old/*/step-*")]
        assert {state.name for state in kept} == {"step-000003", "step-000004"}, "no state is deleted"
        for again in range((step or 0) + 1, 5):
            (path / "shards" / f"{again}.jsonl").write_text(f"samples of step {again}\n")
            work.seal(again, path / "shards" / f"{again}.jsonl")
            work.append("metrics", {"step": again})
            work.append("timing", {"step": again, "s": 0.5})
            work.save(again, writer(str(again)))
        work.require_whole(4)


def test_the_last_seal_of_a_file_counts(tmp_path: Path) -> None:
    with WorkDir.open(tmp_path / "w", "a") as work:
        shard = work.path / "s.jsonl.part"
        for text in ("one", "two"):
            assert not work.is_sealed(shard)
            shard.write_text(text)
            work.seal(0, shard)
            assert work.is_sealed(shard)
            shard.write_text("changed")
        work.clear()
        assert not (work.path / "files.jsonl").exists()


def test_a_journal_takes_no_number_that_json_cannot_hold(tmp_path: Path) -> None:
    with WorkDir.open(tmp_path / "w", "a") as work:
        with pytest.raises(ValueError, match="Out of range"):
            work.append("metrics", {"step": 1, "loss": float("nan")})
        assert work.num_attempts() == 0


def test_a_second_job_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w"
    with WorkDir.open(path, "a") as work:
        work.save(1, writer("one"))
        with pytest.raises(ConfigError, match="another process works there"), WorkDir.open(path, "b"):
            pass
        assert states(path) == ["step-000001"]
    assert newest_step(path) == 1


ENDLESS_SAVES = """
import sys
from pathlib import Path
from trainer.jobs.work_folder import WorkDir

def write(folder):
    for name in "abc":
        (folder / name).write_bytes(bytes([step % 251]) * 300_000)

with WorkDir.open(Path(sys.argv[1]), "a") as work:
    newest = work.newest()
    step = newest[0] if newest else 0
    work.begin_attempt(step)
    while True:
        step += 1
        work.append("metrics", {"step": step})
        work.save(step, write)
        if step == 1 or step % 5 == 0:
            print(step, flush=True)
"""


@pytest.mark.kill
def test_a_kill_at_any_moment_leaves_a_complete_state_and_frees_the_lock(
    tmp_path: Path, project_root: Path, num_kills: int
) -> None:
    """The process dies in the middle of a save almost always: it does nothing else."""
    path, last = tmp_path / "w", 0
    for moment in range(min(num_kills, 5)):
        command = [sys.executable, "-c", ENDLESS_SAVES, str(path)]
        process = subprocess.Popen(command, cwd=project_root, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.013 * moment)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        with WorkDir.open(path, "a") as work:
            newest = work.newest()
            assert newest is not None
            step, state = newest
            assert step > last
            last = step
            contents = {(state / name).read_bytes() for name in "abc"}
            assert contents == {bytes([step % 251]) * 300_000}
            work.begin_attempt(step)
            lines = (path / "metrics.jsonl").read_text().splitlines()
            assert [json.loads(line)["step"] for line in lines] == list(range(1, step + 1))
