"""A stage that trains nothing ends with its cause in one line; prompts that cannot fit are refused at the start."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from records.errors import ConfigError
from records.problem import Problem
from records.trajectory import CallKind, SelectionReason, StopReason, Trajectory, Turn
from tests.trainer.fakes import TOOL, CharCodec
from tests.trainer.stages import FakeSampler, FakeTrainer, a_rollout, objective, scripted_stage
from trainer.data.solve_rates import histogram
from trainer.jobs.work_folder import WorkDir
from trainer.metrics.sinks import Sinks
from trainer.rollout.chat import ChatFormat
from trainer.rollout.prompt_fit import fitting
from trainer.stages.hard_filter import refuse_if_lost
from trainer.stages.rl_job import _loop
from trainer.stages.solve_rates import rates_of
from trainer.stages.stall import EQUAL_STEPS, LOST_STEPS, StageStalled, StallWatch, stall_of


def lost_with_its_call(problem: str, sample: int) -> Trajectory:
    turn = Turn(text="x", start=1, end=4, call=CallKind.EXECUTED, code="1")
    return a_rollout(problem, sample, None, turns=[turn])


class Quiet:
    """No signal arrives."""

    requested = None


class SavingTrainer(FakeTrainer):
    def save(self, folder: Path) -> None:
        (folder / "weights").write_text("w")


def run_steps(group: list[Trajectory], tmp_path: Path, steps: int, **changes: Any) -> list[str]:
    """Run the loop of a stage whose every step plays these rollouts; return the saved states."""
    stage = scripted_stage(group, SavingTrainer(), FakeSampler(group), steps=steps)
    stage = replace(stage, objective=stage.objective.model_copy(update=changes))
    stage.sampler.codec = CharCodec()  # pyright: ignore[reportAttributeAccessIssue]
    with WorkDir.open(tmp_path / "rl1", "f") as work:
        try:
            _loop(stage, work, Quiet(), Sinks([]), 0, "all", 0.0)  # pyright: ignore[reportArgumentType]
        finally:
            states = sorted(state.name for state in work.path.glob("step-*"))
    return states


MIXED = [a_rollout("p", i, "4" if i % 2 else "5") for i in range(6)]
NO_CALL = {"every rollout": [a_rollout("p", i, None) for i in range(8)],
           "every tool call": [*[lost_with_its_call("p", i) for i in range(6, 8)], *MIXED]}  # fmt: skip


@pytest.mark.parametrize("steps", [1, 2, 4, 30])
@pytest.mark.parametrize("cause", NO_CALL)
def test_a_stage_that_loses_every_call_or_rollout_ends_and_publishes_nothing(
    cause: str, steps: int, tmp_path: Path
) -> None:
    with pytest.raises(StageStalled) as refused:
        run_steps(NO_CALL[cause], tmp_path, steps)
    assert str(refused.value).startswith(f"rl1 step {min(steps, LOST_STEPS)}: {cause}")
    assert "\n" not in str(refused.value)
    assert not list((tmp_path / "rl1").glob("step-*")), "a lost step is no state to go on from"


@pytest.mark.parametrize(
    ("group", "changes", "words"),
    [
        ([a_rollout("p", i, "4", logprob=[0.0, float("nan"), -1.0, -1.0]) for i in range(8)], {}, "have no reward"),
        ([a_rollout("p", i, "4", stop=StopReason.LENGTH) for i in range(8)], {"overlong": "filter"}, "raise max_resp"),
        ([a_rollout("p", i, "4", stop=StopReason.CONTEXT) for i in range(8)], {"overlong": "filter"}, "raise max_resp"),
        ([a_rollout("p", i, "4", ids=[], mask=[], logprob=[], turns=[], stop=StopReason.CONTEXT) for i in range(8)], {},
         "have no reward"),
    ],
    ids=["broken log-probs", "cut in a turn", "cut before a tool response", "prompt does not fit"],
)  # fmt: skip
def test_a_stage_that_a_fault_empties_ends_with_the_cause(
    group: list[Trajectory], changes: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(StageStalled, match="no rollout was trained: 8 of 8") as refused:
        run_steps(group, tmp_path, 20, **changes)
    assert words in str(refused.value)


def test_a_stage_of_equal_rewards_ends_after_more_patience(tmp_path: Path) -> None:
    wrong = [a_rollout("p", i, "5") for i in range(8)]
    with pytest.raises(StageStalled, match="too easy or too hard") as refused:
        run_steps(wrong, tmp_path / "long", 30)
    assert f"rl1 step {EQUAL_STEPS}" in str(refused.value)
    assert run_steps(wrong, tmp_path / "short", 3) == ["step-000002", "step-000003"]


def test_a_single_lost_step_saves_no_state_and_the_stage_continues(tmp_path: Path) -> None:
    assert run_steps(MIXED, tmp_path, 5) == ["step-000004", "step-000005"]
    watch = StallWatch(30)
    good, lost = {"num_rollouts": 8, "num_kept": 4}, {"num_rollouts": 8, "num_aborted": 8, "num_kept": 0}
    for metrics in (lost, lost, good) * 4:
        assert watch.see(metrics) is None
        assert watch.is_sound is (metrics is good)


def test_training_before_a_loss_of_the_engine_is_saved(
    tmp_path: Path,
) -> None:
    stage = scripted_stage(MIXED, SavingTrainer(), FakeSampler(MIXED), steps=20)
    stage.sampler.codec = CharCodec()  # pyright: ignore[reportAttributeAccessIssue]
    good, lost = list(MIXED), [a_rollout("p", i, None) for i in range(8)]

    class GoesDown:
        """Steps 1 to 4 train; from step 5 on the engine loses every rollout."""

        def __getattr__(self, name: str) -> Any:
            return getattr(stage, name)

        def step(self, step: int) -> Any:
            stage.sampler = FakeSampler(good if step < 5 else lost)  # pyright: ignore[reportAttributeAccessIssue]
            stage.sampler.codec = CharCodec()  # pyright: ignore[reportAttributeAccessIssue]
            return stage.step(step)

    with WorkDir.open(tmp_path / "rl1", "f") as work:
        with pytest.raises(StageStalled):
            _loop(GoesDown(), work, Quiet(), Sinks([]), 0, "all", 1000.0)  # pyright: ignore[reportArgumentType]
        assert [state.name for state in work.path.glob("step-*")] == ["step-000004"]
        work.begin_attempt(4)
        lines = (work.path / "metrics.jsonl").read_text().splitlines()
        assert [json.loads(line)["step"] for line in lines] == [1, 2, 3, 4]


def test_some_lost_calls_are_not_a_stall() -> None:
    assert (
        stall_of({"num_rollouts": 8, "num_tool_calls_lost": 5, "num_tool_calls_run": 1, "num_kept": 2})
        is None
    )


# --- prompts ---------------------------------------------------------------------------------------------


def a_pool(*lengths: int) -> list[Problem]:
    return [Problem(id=str(i), prompt="q" * length, answer="1") for i, length in enumerate(lengths)]


def test_a_pool_whose_prompts_cannot_fit_is_refused_before_the_first_step() -> None:
    chat = ChatFormat(system="full", tool_name=TOOL)
    bare = len(CharCodec().encode(chat.prompt("")))
    with pytest.raises(ConfigError) as refused:
        fitting(a_pool(9, 12), chat, CharCodec(), 100, at_least=1, where="rl1")
    line = str(refused.value)
    assert line.startswith("rl1: 2 of 2 prompts take more than rollout.max_prompt = 100 tokens")
    assert f"the longest takes {bare + 12}; without any question it is {bare}" in line
    assert "raise rollout.max_prompt, or set rollout.system to brief" in line


def test_unfit_prompts_are_left_out_if_the_others_fill_a_step(
    capsys: pytest.CaptureFixture[str],
) -> None:
    chat = ChatFormat(system="brief", tool_name=TOOL)
    most = len(CharCodec().encode(chat.prompt("q" * 10)))
    pool = a_pool(3, 11, 10, 40)
    fit = fitting(pool, chat, CharCodec(), most, at_least=2, where="rl1")
    assert [problem.id for problem in fit] == ["0", "2"]
    assert "2 of 4 prompts" in capsys.readouterr().out
    with pytest.raises(ConfigError, match="the 2 that fit do not fill a step of 3"):
        fitting(pool, chat, CharCodec(), most, at_least=3, where="rl1")


# --- both ends of the budget, and the filter ---------------------------------------------------------------


def test_filtered_overlong_rollouts_are_those_of_both_ends_of_the_budget() -> None:
    group = [
        a_rollout("p", i, "4" if i % 2 else "5", stop=stop)
        for i, stop in enumerate([StopReason.LENGTH, StopReason.CONTEXT, *[StopReason.ANSWER] * 4])
    ]
    stage = scripted_stage(group, FakeTrainer(), FakeSampler(group))
    outcome = replace(stage, objective=objective(group_size=4, prompts_per_step=1, overlong="filter")).step(1)
    assert [t.selection for t in outcome.trajectories[:2]] == [SelectionReason.OVERLONG] * 2
    assert outcome.metrics["num_overlong"] == 2


def test_lost_rollouts_do_not_make_a_problem_hard(tmp_path: Path) -> None:
    group = [
        *[a_rollout("easy", i, "4" if i else None, reward=1.0 if i else None) for i in range(8)],
        *[a_rollout("hard", i, "5", reward=float(i == 3)) for i in range(8)],
        *[a_rollout("lost", i, None) for i in range(8)],
    ]
    rates = rates_of([Problem(id=name, prompt="", answer="") for name in ("easy", "hard", "lost")], group)
    assert [(rate.solved, rate.graded) for rate in rates] == [(7, 7), (1, 8), (0, 0)]
    assert histogram(rates, 8) == [0, 1, 0, 0, 0, 0, 0, 0, 1]
    with WorkDir.open(tmp_path / "filter", "f") as work:
        refuse_if_lost(group[:8] + group[8:16], work)
        (work.path / "rollouts").mkdir()
        (work.path / "rollouts" / "00000000.jsonl").write_text("x")
        with pytest.raises(ConfigError, match="9 of 24 rollouts were lost"):
            refuse_if_lost(group, work)
        assert not (work.path / "rollouts").exists(), "the next run makes them again"
    assert (tmp_path / ".old" / "filter-lost" / "00000000.jsonl").is_file()
