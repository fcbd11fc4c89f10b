"""The sampler as configured, and chunks that survive a kill."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from config.commands import CHAT
from config.model import Control
from config.resolve import resolve
from records.errors import ConfigError
from records.problem import Problem
from records.tool_call import Status, ToolCall
from records.trajectory import GradedRollout, Rollout, StopReason, Trajectory
from tests.trainer.stages import a_rollout
from tests.trainer.tiny_checkpoint import tiny_config
from trainer.jobs.work_folder import WorkDir
from trainer.rollout.chat import chat_format, parse_turn, response_text
from trainer.rollout.episode import RolloutClock
from trainer.rollout.grading_thread import graded_as_they_end
from trainer.rollout.sample_chunks import CHUNK, sample_in_chunks
from trainer.rollout.sampler import open_sampler, require_positions, rl_settings
from trainer.rollout.task import Task
from trainer.rollout.tool import ToolOff, limits_of


def test_limits_and_conversation_are_the_configured_ones() -> None:
    config = resolve(
        overrides=["sandbox.memory_mib=64", "rollout.tool.state=session", "rollout.tool.response_chars=99"]
    )
    limits = limits_of(config.sandbox)
    assert (limits.wall_s, limits.cpu_s, limits.memory_bytes) == (20.0, 1.0, 64 * 2**20)
    chat = chat_format(config.rollout)
    assert (chat.session, chat.response_chars, chat.tool_name) == (True, 99, config.rollout.tool.name)


@pytest.mark.parametrize(("deterministic", "rejoin"), [("true", 8), ("false", None)])
def test_rollouts_rejoin_by_count_in_deterministic_runs_only(deterministic: str, rejoin: int | None) -> None:
    config = resolve(overrides=[f"runtime.deterministic={deterministic}"])
    settings = rl_settings(
        CHAT.of(config), config.rl.stage("rl2"), run="r", stage="rl2", runtime=config.runtime
    )
    assert settings.rejoin_iterations == rejoin
    assert (settings.max_response, settings.max_turns) == (
        config.rl.stage("rl2").max_response,
        config.rl.stage("rl2").max_turns,
    )
    assert (settings.temperature, settings.top_p, settings.benchmark) == (1.0, 1.0, "rl2")


def test_without_the_tool_every_call_gets_the_same_refusal() -> None:
    results = [ToolOff().submit(ToolCall(id=code, code=code)).result(timeout=0) for code in ("1", "print(2)")]
    assert [result.status for result in results] == [Status.ERROR] * 2
    turn = parse_turn('<tool_call>{"name": "t", "arguments": {"code": "1"}}</tool_call>', "t")
    shown = {response_text(turn, result, 256) for result in results}
    assert shown == {"tool call failed\nreason: error message: the tool is not available"}


def test_a_sampler_repeats_its_samples_after_other_batches(tiny_checkpoint: Path) -> None:
    """A rollout's stream depends on its own name; the second batch reuses the engine."""
    config = tiny_config()
    settings = rl_settings(
        CHAT.of(config), config.rl.stage("rl1"), run="r", stage="rl1", runtime=config.runtime
    )
    tasks = [Task(problem=Problem(id=f"p{i}", prompt="What is 1?", answer="1"), sample=0) for i in range(3)]
    with open_sampler(
        tiny_checkpoint, config.rollout, config.sandbox, settings, config.runtime, Control.TOOL_OFF
    ) as sampler:
        sampler.load(tiny_checkpoint)
        first = sorted((t for t, _ in sampler.run(tasks, 0)), key=lambda t: t.key)
        again = sorted((t for t, _ in sampler.run(tasks, 0)), key=lambda t: t.key)
        (alone,) = [t for t, _ in sampler.run(tasks[1:2], 0)]
    assert first == again
    assert alone.ids == first[1].ids
    assert len({tuple(t.ids) for t in first}) == 3
    assert sampler.engine_s > 0


class Counting:
    """Returns one token per task and counts its calls; may die after some."""

    def __init__(self, *, deterministic: bool = True, dies_after: int | None = None) -> None:
        self.asked: list[int] = []
        self.dies_after = dies_after
        config = tiny_config(f"runtime.deterministic={str(deterministic).lower()}")
        self.settings = rl_settings(
            CHAT.of(config), config.rl.stage("rl1"), run="r", stage="rl1", runtime=config.runtime
        )

    def run(self, tasks: Sequence[Task], policy_version: int) -> Iterator[tuple[Rollout, RolloutClock]]:
        self.asked.append(len(tasks))
        for number, task in enumerate(reversed(tasks)):
            if number == self.dies_after:
                raise KeyboardInterrupt
            rollout = Rollout(
                run="r", checkpoint="c", benchmark="b", problem=task.problem.id, sample=task.sample, ids=[1, 2],
                mask=[False, True], logprob=[0.0, -0.1], prompt_len=1, stop=StopReason.ANSWER,
            )  # fmt: skip
            yield rollout, RolloutClock()


def ungraded(rollout: Rollout) -> GradedRollout:
    return rollout.graded(reward=None)


def test_finished_chunks_are_read_back_and_only_the_others_sampled(tmp_path: Path) -> None:
    problem = Problem(id="p", prompt="", answer="")
    tasks = [Task(problem=problem, sample=i) for i in range(2 * CHUNK + 5)]

    def grade(rollout: Rollout) -> GradedRollout:
        return rollout.graded(reward=float(rollout.sample % 2))

    def sample(sampler: Any, work: WorkDir) -> list[Trajectory]:
        return sample_in_chunks(
            sampler, tasks, work, name="rollouts", label="filter", policy_version=0, grade=grade
        )

    with WorkDir.open(tmp_path / "w", "a") as work:
        first = Counting()
        done = sample(first, work)
        assert first.asked == [CHUNK, CHUNK, 5]
        (work.path / "rollouts" / f"{CHUNK:08d}.jsonl").unlink()
        second = Counting()
        assert sample(second, work) == done
        assert second.asked == [CHUNK]
    assert [t.sample for t in done] == list(range(2 * CHUNK + 5))
    assert done[3].reward == 1.0


@pytest.mark.parametrize(("deterministic", "asked_again"), [(True, 20), (False, 13)])
def test_an_interrupted_chunk_is_kept_if_batches_do_not_matter(
    deterministic: bool, asked_again: int, tmp_path: Path
) -> None:
    problem = Problem(id="p", prompt="", answer="")
    tasks = [Task(problem=problem, sample=i) for i in range(20)]

    def sample(sampler: Any, work: WorkDir) -> list[Trajectory]:
        return sample_in_chunks(sampler, tasks, work, name="b", label="b", policy_version=0, grade=ungraded)

    with WorkDir.open(tmp_path / "straight", "a") as work:
        straight = sample(Counting(deterministic=deterministic), work)
    with WorkDir.open(tmp_path / "w", "a") as work:
        with pytest.raises(KeyboardInterrupt):
            sample(Counting(deterministic=deterministic, dies_after=7), work)
        for journal in work.path.glob("*/*.journal"):
            with journal.open("a") as lines:
                lines.write('{"run": "half a li')
        again = Counting(deterministic=deterministic)
        assert sample(again, work) == straight
        assert again.asked == [asked_again]
        assert not list(work.path.glob("*/*.journal"))


@pytest.mark.parametrize("damage", ["cut", "swapped", "doubled", "emptied"])
def test_a_changed_chunk_is_sampled_again(
    damage: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tasks = [Task(problem=Problem(id="p", prompt="", answer=""), sample=i) for i in range(CHUNK + 5)]

    def sample(sampler: Any, work: WorkDir) -> list[Trajectory]:
        return sample_in_chunks(sampler, tasks, work, name="b", label="b", policy_version=0, grade=ungraded)

    with WorkDir.open(tmp_path / "w", "a") as work:
        first = sample(Counting(), work)
        one, two = (work.path / "b" / f"{start:08d}.jsonl" for start in (0, CHUNK))
        text, other = one.read_bytes(), two.read_bytes()
        match damage:
            case "cut":
                one.write_bytes(text[: len(text) // 2])
            case "swapped":
                one.write_bytes(other)
                two.write_bytes(text)
            case "doubled":
                one.write_bytes(text * 2)
            case "emptied":
                one.write_bytes(b"")
        again = Counting()
        assert sample(again, work) == first
    assert again.asked == ([CHUNK, 5] if damage == "swapped" else [CHUNK])
    assert f"{one}: differs from what was written; its samples are made again" in capsys.readouterr().out
    assert one.with_suffix(".damaged").exists()


def test_foreign_and_duplicated_samples_of_a_journal_are_ignored(tmp_path: Path) -> None:
    tasks = [Task(problem=Problem(id="p", prompt="", answer=""), sample=i) for i in range(4)]
    with WorkDir.open(tmp_path / "w", "a") as work:
        with pytest.raises(KeyboardInterrupt):
            sample_in_chunks(
                Counting(deterministic=False, dies_after=2), tasks, work, name="b", label="b", policy_version=0,
                grade=ungraded,
            )  # fmt: skip
        (journal,) = work.path.glob("b/*.journal")
        text = journal.read_text()
        journal.write_text(text * 2 + text.replace('"sample": ', '"sample": 9'))
        again = Counting(deterministic=False)
        done = sample_in_chunks(again, tasks, work, name="b", label="b", policy_version=0, grade=ungraded)
    assert [t.sample for t in done] == [0, 1, 2, 3]
    assert again.asked == [2]


def test_a_model_made_for_shorter_contexts_is_refused(tiny_checkpoint: Path) -> None:
    limit = tiny_config().model.max_positions
    require_positions(tiny_checkpoint, limit)
    with pytest.raises(ConfigError, match=rf"holds contexts of {limit} tokens .* take {limit + 1};"):
        require_positions(tiny_checkpoint, limit + 1)


def test_grading_starts_while_the_sampler_goes_on() -> None:
    """The sampler makes its second rollout only once the first is graded."""
    is_graded = threading.Event()

    def rollouts() -> Iterator[Rollout]:
        for sample in range(2):
            yield a_rollout("p", sample, "4")
            assert is_graded.wait(20)

    def grade(rollout: Rollout) -> int:
        is_graded.set()
        return rollout.sample

    assert list(graded_as_they_end(rollouts(), grade)) == [0, 1]


def test_rollouts_that_ended_are_graded_although_the_sampler_fails() -> None:
    has_failed = threading.Event()
    graded: list[int] = []

    def rollouts() -> Iterator[Rollout]:
        for sample in range(3):
            yield a_rollout("p", sample, "4")
        has_failed.set()
        raise KeyboardInterrupt

    def grade(rollout: Rollout) -> None:
        assert has_failed.wait(20)
        time.sleep(0.05)
        graded.append(rollout.sample)

    with pytest.raises(KeyboardInterrupt):
        list(graded_as_they_end(rollouts(), grade))
    assert graded == [0, 1, 2]
