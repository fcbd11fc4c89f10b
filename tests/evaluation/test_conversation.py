"""Conversations step by step: ids as sampled, replies masked, every end told apart, room kept."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

import pytest

from config.resolve import resolve
from evaluation.conversations.conversation import DialogueSampler, OneTurn, Script, ScriptFailed
from records.problem import Problem
from records.tool_call import Limits
from records.trajectory import Rollout, StopReason
from tests.trainer.fakes import AdmitAll, CharCodec, ScriptedEngine, script
from trainer.engines.requests import Completion, EngineReport, Finish, GenerateRequest
from trainer.rollout.chat import TURN_END
from trainer.rollout.chat_text import ChatText, live
from trainer.rollout.task import RolloutSettings, Task
from trainer.scheduling.policy import Assignment, SchedulingPolicy


@dataclass
class Echo:
    """Goes on until it has heard `turns` turns, saying the number each time."""

    turns: int
    lost_at: int = -1
    reply_text: str = "<{}>"
    said: list[str] = field(default_factory=list)

    def opening(self) -> ChatText:
        return live("go:")

    def add_turn(self, text: str) -> bool:
        self.said.append(text)
        return len(self.said) < self.turns

    def reply(self) -> ChatText:
        if len(self.said) == self.lost_at:
            raise ScriptFailed("the services are gone")
        return live(self.reply_text.format(len(self.said)))


def hold(
    engine: ScriptedEngine, *scripts: Script, kv_tokens: int = 4000, max_response: int = 100
) -> list[Rollout]:
    sampler = DialogueSampler(
        engine=engine,
        codec=CharCodec(),
        settings=RolloutSettings(
            run="r", checkpoint="m", benchmark="b", max_prompt=100, max_response=max_response, max_turns=1,
            temperature=0.0, top_p=1.0, seed=1, policy_version=0, limits=Limits(), rejoin_iterations=None,
        ),
        rollout=resolve().rollout.model_copy(update={"kv_tokens": kv_tokens}),
        script_of=lambda task: scripts[task.sample],
    )  # fmt: skip
    problem = Problem(id="p", prompt="", answer="")
    tasks = [Task(problem=problem, sample=sample) for sample in range(len(scripts))]
    return sorted((t for t, _ in sampler.run(tasks, 0)), key=lambda t: t.sample)


def test_one_turn_is_a_prompt_and_what_was_sampled() -> None:
    (trajectory,) = hold(ScriptedEngine(script(f"yes{TURN_END}")), OneTurn(live("Q?")))
    assert trajectory.stop is StopReason.ANSWER
    assert [turn.text for turn in trajectory.turns] == [f"yes{TURN_END}"]
    assert trajectory.prompt_len == 2
    assert trajectory.mask == [False] * 2 + [True] * 4


def test_the_policy_hears_no_time_of_the_engines_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """All else it hears here is at time 0; a clock between would make its forecasts unrepeatable."""

    class Ticking(ScriptedEngine):
        def report(self) -> EngineReport:
            return replace(super().report(), t=time.monotonic())

    class Listening(AdmitAll):
        def on_report(self, report: EngineReport) -> list[Assignment]:
            heard.append(report.t)
            return []

    heard: list[float] = []
    listening = SchedulingPolicy(name="listening", make=lambda capacities: Listening())
    monkeypatch.setattr("evaluation.conversations.conversation.scheduling_policy", lambda name: listening)
    hold(Ticking(script(f"yes{TURN_END}")), OneTurn(live("Q?")))
    assert set(heard) == {0.0}


def test_replies_are_masked_and_ids_stay_as_sampled() -> None:
    engine = ScriptedEngine(script(f"ab{TURN_END}", f"cd{TURN_END}"))
    (trajectory,) = hold(engine, Echo(turns=2))
    codec = CharCodec()
    assert codec.decode(trajectory.ids) == f"go:ab{TURN_END}<1>cd{TURN_END}"
    assert trajectory.ids != codec.encode(codec.decode(trajectory.ids)), "twins of the sampled ids are kept"
    shown = [i for i, sampled in zip(trajectory.ids, trajectory.mask, strict=True) if not sampled]
    assert codec.decode(shown) == "go:<1>"
    assert engine.requests[1].ids == trajectory.ids[: trajectory.turns[1].start]
    assert engine.requests[0].seed != engine.requests[1].seed
    assert len(trajectory.ids) == len(trajectory.mask) == len(trajectory.logprob)


def test_a_lost_reply_aborts_the_sample_and_no_other() -> None:
    engine = ScriptedEngine(script(*[f"x{TURN_END}"] * 3))
    lost, fine = hold(engine, Echo(turns=3, lost_at=2), Echo(turns=3))
    assert (lost.stop, lost.detail) == (StopReason.ABORTED, "the services are gone")
    assert (fine.stop, len(fine.turns)) == (StopReason.ANSWER, 3)


def test_an_opening_may_use_the_room_of_the_prompt_and_more_but_must_leave_some() -> None:
    engine = ScriptedEngine(script(f"x{TURN_END}"))
    fits, not_quite = hold(engine, OneTurn(live("q" * 300)), OneTurn(live("q" * 345)), max_response=500)
    assert fits.stop is StopReason.ANSWER
    assert (not_quite.stop, not_quite.detail, not_quite.turns) == (
        StopReason.CONTEXT, "prompt does not fit", [],
    )  # fmt: skip
    assert engine.requests[0].max_new == 300


def test_a_turn_without_end_and_a_reply_without_room_stop_the_conversation() -> None:
    engine = ScriptedEngine(script("x" * 200))
    (cut,) = hold(engine, Echo(turns=2))
    assert (cut.stop, cut.response_len) == (StopReason.LENGTH, 100)
    (full,) = hold(ScriptedEngine(script(f"x{TURN_END}")), Echo(turns=2, reply_text="y" * 98))
    assert (full.stop, full.response_len) == (StopReason.CONTEXT, 2)


def test_a_turn_that_the_engine_broke_off_is_no_score() -> None:
    class Breaking(ScriptedEngine):
        def _complete(self, request: GenerateRequest) -> Completion:
            return replace(super()._complete(request), finish=Finish.ABORTED)

    (broken,) = hold(Breaking(script(f"x{TURN_END}")), OneTurn(live("q")))
    assert (broken.stop, broken.detail) == (StopReason.ABORTED, "engine")


def test_conversations_beyond_the_cache_wait_and_are_held_later() -> None:
    engine = ScriptedEngine(script(f"x{TURN_END}", f"y{TURN_END}"))
    held = hold(engine, *(Echo(turns=2) for _ in range(5)), kv_tokens=2 * 103 + 50)
    assert [t.stop for t in held] == [StopReason.ANSWER] * 5
    assert all(f"release {request.session}" in engine.calls for request in engine.requests)


def test_two_conversations_of_one_name_are_refused() -> None:
    engine = ScriptedEngine(script(f"x{TURN_END}"))
    sampler = DialogueSampler(
        engine=engine, codec=CharCodec(), rollout=resolve().rollout, script_of=lambda task: OneTurn(live("q")),
        settings=RolloutSettings(
            run="r", checkpoint="m", benchmark="b", max_prompt=9, max_response=9, max_turns=1, temperature=0.0,
            top_p=1.0, seed=1, policy_version=0, limits=Limits(), rejoin_iterations=None,
        ),
    )  # fmt: skip
    task = Task(problem=Problem(id="p", prompt="", answer=""), sample=0)
    with pytest.raises(ValueError, match="two conversations"):
        list(sampler.run([task, task], 0))
