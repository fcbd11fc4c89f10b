"""The source of a reward, and that no fault of a reward becomes a score."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from config.objective import ObjectiveSection
from config.resolve import resolve
from records.errors import ConfigError
from records.problem import Problem
from records.trajectory import CallKind, StopReason, Trajectory, Turn
from records.verdict import VerdictKind
from trainer.selection.reward import even_ids, reward_function
from trainer.selection.user_reward import MOST_HANGS_IN_A_ROW, UserReward

PROBLEM = Problem(id="p", prompt="", answer="4")
EXAMPLES = "tests.trainer.example_rewards"


def objective(**changes: Any) -> ObjectiveSection:
    return resolve().objective.model_copy(update=changes)


def a_rollout(text: str, stop: StopReason = StopReason.ANSWER) -> Trajectory:
    turn = Turn(text=text, start=1, end=2, call=CallKind.NONE)
    return Trajectory(
        run="r",
        checkpoint="c",
        benchmark="rl1",
        problem="p",
        sample=0,
        mask=[False, True],
        turns=[turn],
        stop=stop,
    )


@pytest.mark.parametrize("grader", ["strict", "rstar_compat"])
def test_without_a_users_function_the_grader_decides(grader: str) -> None:
    reward = reward_function(objective(grader=grader))
    boxed = reward(PROBLEM, a_rollout("</reason><answer>\\boxed{4}</answer>"))
    assert (boxed.verdict, boxed.grader) == (VerdictKind.CORRECT, grader)
    assert reward(PROBLEM, a_rollout("</reason><answer>\\boxed{5}</answer>")).verdict is VerdictKind.WRONG


def test_a_response_cut_at_the_budget_earns_nothing_in_training() -> None:
    """Paper section 2.2.1."""
    cut = a_rollout("</reason><answer>\\boxed{4}</answer>", StopReason.LENGTH)
    assert reward_function(objective())(PROBLEM, cut).verdict is VerdictKind.NO_ANSWER


@pytest.fixture
def own() -> Iterator[Callable[..., UserReward]]:
    """Rewards of `example_rewards` by name; the fixture ends their processes."""
    made: list[UserReward] = []

    def of(name: str, limit_s: float = 30.0) -> UserReward:
        made.append(UserReward(f"{EXAMPLES}:{name}", limit_s))
        return made[-1]

    yield of
    for reward in made:
        reward.close()


def test_a_users_function_is_found_by_name() -> None:
    reward = reward_function(objective(reward=f"{EXAMPLES}:by_answer"))
    assert reward(PROBLEM, a_rollout("4")).verdict is VerdictKind.CORRECT
    assert reward(PROBLEM, a_rollout("5")).verdict is VerdictKind.WRONG


def test_the_example_of_the_guide_is_right_only_within_100_tokens(
    project_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    guide = (project_root / "docs" / "guide.md").read_text(encoding="utf-8")
    (block,) = re.findall(r"```python\n# my_reward\.py\n(.*?)```", guide, re.DOTALL)
    (tmp_path / "my_reward.py").write_text(block, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    right = "</reason><answer>\\boxed{4}</answer>"
    short = a_rollout(right)
    long = replace(short, mask=[False] + [True] * 101)
    with closing(UserReward("my_reward:short_and_right", 30.0)) as reward:
        assert reward(PROBLEM, short).verdict is VerdictKind.CORRECT
        assert reward(PROBLEM, long).verdict is VerdictKind.WRONG


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("raising", "ConnectionError"),
        ("a_number", "returned float"),
        ("not_a_number", "returned float"),
        ("a_broken_verdict", "splendid"),
        ("dying", "ended the process"),
    ],
)
def test_a_fault_of_a_reward_is_an_infrastructure_failure(name: str, message: str, own: Callable) -> None:
    reward = own(name)
    for _ in range(2):
        verdict = reward(PROBLEM, a_rollout("4"))
        assert verdict.verdict is VerdictKind.INFRA_FAILED
        assert message in verdict.rule
        assert len(verdict.rule) <= 200


def test_a_reward_that_hangs_is_killed_with_its_children_and_restarted(tmp_path: Path, own: Callable) -> None:
    """B37, B39: a busy loop ends at the limit, no process is left, the other rollouts are graded."""
    reward = own("hanging_on_sample_3", limit_s=1.0)
    problem = replace(PROBLEM, prompt=str(tmp_path / "pid"))
    rollouts = [replace(a_rollout("4"), sample=sample) for sample in range(5)]
    kinds = [reward(problem, rollout).verdict for rollout in rollouts]
    right, wrong = VerdictKind.CORRECT, VerdictKind.WRONG
    assert kinds == [wrong, right, wrong, VerdictKind.INFRA_FAILED, wrong]
    child = int((tmp_path / "pid").read_text())
    state = Path(f"/proc/{child}/stat")
    deadline = time.monotonic() + 10
    while state.exists() and state.read_text().split()[2] != "Z" and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not state.exists() or state.read_text().split()[2] == "Z"


def test_a_reward_that_hangs_repeatedly_ends_the_job_with_one_line(own: Callable) -> None:
    reward = own("always_hanging", limit_s=0.2)
    for _ in range(MOST_HANGS_IN_A_ROW - 1):
        assert reward(PROBLEM, a_rollout("4")).verdict is VerdictKind.INFRA_FAILED
    with pytest.raises(
        ConfigError, match=r"objective.reward = .* 5 rollouts in a row; fix it, or raise"
    ) as refused:
        reward(PROBLEM, a_rollout("4"))
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("name", ["no_such_module:f", f"{EXAMPLES}:absent", f"{EXAMPLES}:NOT_CALLABLE"])
def test_a_reward_that_cannot_be_found_is_refused_at_once(name: str) -> None:
    with pytest.raises(ConfigError, match=r"objective\.reward = "):
        reward_function(objective(reward=name))


def test_the_rewards_of_this_suite_need_no_process() -> None:
    assert reward_function(objective(reward="trainer.selection.reward:even_ids")) is even_ids
