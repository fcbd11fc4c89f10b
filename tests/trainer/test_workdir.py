"""The working folder: whatever moment a job dies, what it resumes from is whole and belongs to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from config.resolve import ConfigError
from trainer.workdir import WorkDir


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


def test_the_same_job_finds_its_state_again(tmp_path: Path) -> None:
    with WorkDir.open(tmp_path / "rl1", "a") as work:
        assert work.newest() is None
        work.save(4, writer("four"))
    with WorkDir.open(tmp_path / "rl1", "a") as work:
        newest = work.newest()
        assert newest is not None
        step, state = newest
        assert (step, (state / "weights").read_text()) == (4, "four")


def test_damaged_states_do_not_push_out_the_ones_of_the_job_that_began_again(tmp_path: Path) -> None:
    """They counted among the two kept, and being later ones, they were the two."""
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


def test_another_job_sets_the_old_folder_aside_and_begins(tmp_path: Path) -> None:
    path = tmp_path / "rl1"
    with WorkDir.open(path, "a") as work:
        work.save(4, writer("four"))
        work.append("metrics", {"step": 4})
    assert newest_step(path, "b") is None
    assert not (path / "metrics.jsonl").exists()
    assert (tmp_path / ".old" / "rl1-a" / "step-000004" / "weights").read_text() == "four"
    assert newest_step(path, "b") is None
    assert len(list((tmp_path / ".old").iterdir())) == 1


def test_a_folder_without_a_readable_fingerprint_is_set_aside(tmp_path: Path) -> None:
    path = tmp_path / "rl1"
    with WorkDir.open(path, "a") as work:
        work.save(4, writer("four"))
    (path / "fingerprint.json").write_text("{")
    assert newest_step(path) is None
    assert (tmp_path / ".old" / "rl1-unreadable").is_dir()


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
def test_a_damaged_state_is_passed_over_and_said_so(
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
    assert f"{state}: damaged, passed over" in capsys.readouterr().out


def test_a_save_that_fails_leaves_the_older_state_and_no_litter(tmp_path: Path) -> None:
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
    """Lines of lost steps go, a line that a kill left half written too, the list of attempts stays."""
    with WorkDir.open(tmp_path / "w", "a") as work:
        work.begin_attempt(0)
        for step in (1, 2, 3, 4):
            work.append("metrics", {"step": step, "x": 0.1})
            work.append("timing", {"step": step, "step_s": 1.5})
        with (work.path / "metrics.jsonl").open("a") as file:
            file.write('{"step": 5, "x"')
        work.begin_attempt(2)
        for journal in ("metrics", "timing"):
            lines = (work.path / f"{journal}.jsonl").read_text().splitlines()
            assert [json.loads(line)["step"] for line in lines] == [1, 2]
        work.append("metrics", {"step": 3, "x": 0.2})
        lines = (work.path / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line)["step"] for line in lines] == [1, 2, 3]
        assert work.num_attempts() == 2


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


SAVES_FOR_EVER = """
import sys
from pathlib import Path
from trainer.workdir import WorkDir

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
def test_a_kill_at_any_moment_leaves_a_whole_state_and_frees_the_lock(
    tmp_path: Path, project_root: Path, num_kills: int
) -> None:
    """The process dies in the middle of a save nearly always: it does nothing else."""
    path, last = tmp_path / "w", 0
    for moment in range(min(num_kills, 5)):
        command = [sys.executable, "-c", SAVES_FOR_EVER, str(path)]
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
