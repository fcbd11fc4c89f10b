"""Engines in processes of their own: the contract, and what is left of a batch when one is killed."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import replace

import pytest
import torch

from records.problem import Problem
from records.trajectory import Rollout, StopReason
from tests.trainer.engine_contract import CONTRACT, REQUEST, completed
from tests.trainer.fakes import ScriptedEngine, ScriptedTool, a_loop
from tests.trainer.tiny_models import VOCAB, teacher_forced, tiny_model
from trainer.engines.process import EngineProcessEnded, ProcessEngine
from trainer.engines.protocol import Engine, LiveWeights, Recovery
from trainer.engines.requests import GenerateRequest
from trainer.engines.weights_store import WeightsStore
from trainer.rollout.episode import RolloutClock
from trainer.rollout.task import Task
from trainer.rollout.wake import Wake
from trainer.scheduling.kv_budget import KvBudgetPolicy
from trainer.scheduling.policies import ALL, scheduling_policy
from trainer.scheduling.policy import Policy

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
KV_TOKENS = 20_000
MAX_LEN = 1500


def weights_of(seed: int = 0) -> LiveWeights:
    model = tiny_model(seed=seed)
    return LiveWeights(dict(model.named_parameters()), model.config)


@pytest.fixture(scope="module")
def store() -> Iterator[WeightsStore]:
    with closing(WeightsStore()) as made:
        yield made


@pytest.fixture(scope="module")
def started(store: WeightsStore) -> Iterator[ProcessEngine]:
    """The one engine of most tests: its process imports torch, which takes seconds."""
    made = ProcessEngine(engine=0, capacity_tokens=KV_TOKENS, max_len=MAX_LEN, store=store, max_restarts=10)
    with closing(made):
        yield made


@pytest.fixture
def engine(started: ProcessEngine) -> ProcessEngine:
    started.take_weights(weights_of(), 0)
    return started


@pytest.mark.parametrize("behaviour", CONTRACT, ids=lambda behaviour: behaviour.__name__)
def test_an_engine_process_keeps_to_the_contract(
    engine: ProcessEngine, behaviour: Callable[[Engine], None]
) -> None:
    behaviour(engine)


def kill(engine: ProcessEngine) -> None:
    os.kill(engine.pid, signal.SIGKILL)


def wait_until(engine: ProcessEngine, recovery: Recovery) -> None:
    wake = Wake()
    engine.call_when_done(wake.call)
    while engine.recovery is not recovery:
        wake.wait(None)


def test_new_weights_replace_the_old_ones_whole(engine: ProcessEngine) -> None:
    engine.submit(REQUEST)
    completed(engine, 1)
    engine.take_weights(weights_of(seed=1), 1)
    engine.submit(replace(REQUEST, policy_version=1, max_new=16))
    (done,) = completed(engine, 1)
    expected = teacher_forced(tiny_model(seed=1), REQUEST.ids + done.ids)[len(REQUEST.ids) - 1 :]
    assert done.policy_version == 1
    torch.testing.assert_close(torch.tensor(done.logprobs), expected, rtol=0, atol=1e-5)


def test_a_killed_process_is_noticed_and_returns_with_the_current_weights(engine: ProcessEngine) -> None:
    engine.submit(REQUEST)
    (before,) = completed(engine, 1)
    engine.submit(replace(REQUEST, session="lost", max_new=1000, stop_ids=()))
    kill(engine)
    with pytest.raises(EngineProcessEnded, match=r"signal SIGKILL.* with 1 turns in flight; it starts again"):
        completed(engine, 1)
    with pytest.raises(EngineProcessEnded, match="restarting"):
        engine.submit(REQUEST)
    wait_until(engine, Recovery.BACK)
    engine.submit(REQUEST)
    assert completed(engine, 1) == [before]


@pytest.mark.parametrize("scheduler", [policy.name for policy in ALL])
def test_every_scheduler_drives_an_engine_process(engine: ProcessEngine, scheduler: str) -> None:
    pairs = run([engine], scheduling_policy(scheduler).make([KV_TOKENS]), num=6, version=0, max_response=50)
    assert sorted(rollout.sample for rollout, _ in pairs) == list(range(6))
    assert all(rollout.stop.is_models for rollout, _ in pairs)


def test_a_process_that_ends_while_idle_loses_nothing(engine: ProcessEngine) -> None:
    kill(engine)
    engine.take_weights(weights_of(), 0)
    engine.submit(REQUEST)
    assert len(completed(engine, 1)) == 1


def test_an_engine_that_ends_too_often_stays_lost(store: WeightsStore) -> None:
    made = ProcessEngine(engine=7, capacity_tokens=100, max_len=50, store=store, max_restarts=0)
    with closing(made):
        made.take_weights(weights_of(), 0)
        made.submit(REQUEST)
        kill(made)
        with pytest.raises(EngineProcessEnded, match=r"engine process 7 ended .* stays lost"):
            completed(made, 1)
        assert made.recovery is Recovery.GONE
        with pytest.raises(EngineProcessEnded, match="is gone"):
            made.submit(REQUEST)
        with pytest.raises(EngineProcessEnded, match="is gone"):
            made.take_weights(weights_of(), 1)


class Bytes:
    """A tokenizer for 61 ids: text is cut to them; id 0 ends a turn."""

    def encode(self, text: str) -> list[int]:
        return [0] if text == "<|im_end|>" else [1 + ord(char) % (VOCAB - 1) for char in text][:40]

    def decode(self, ids: list[int]) -> str:
        return "".join("<|im_end|>" if i == 0 else chr(64 + i) for i in ids)


def run(
    engines: Sequence[Engine], policy: Policy, *, num: int, version: int, max_response: int
) -> list[tuple[Rollout, RolloutClock]]:
    loop = a_loop(ScriptedEngine(lambda session, turn: ""), ScriptedTool(), max_response=max_response)
    settings = replace(loop.settings, rejoin_iterations=None, policy_version=version)
    loop = replace(loop, engines=engines, policy=policy, codec=Bytes(), settings=settings, wake=Wake())
    problem = Problem(id="p", prompt="what is 2 + 2?", answer="4")
    return list(loop.run([Task(problem=problem, sample=sample, step=5) for sample in range(num)]))


class DiesAfter(ProcessEngine):
    """Its process is killed once it has taken so many requests."""

    num_left = 12

    def submit(self, request: GenerateRequest) -> None:
        super().submit(request)
        self.num_left -= 1
        if self.num_left == 0:
            kill(self)


def test_of_four_engine_processes_one_is_killed_and_every_trajectory_is_delivered(
    store: WeightsStore, capsys: pytest.CaptureFixture[str]
) -> None:
    with ExitStack() as stack:
        kinds = [DiesAfter, ProcessEngine, ProcessEngine, ProcessEngine]
        engines = [
            stack.enter_context(
                closing(kind(engine=i, capacity_tokens=KV_TOKENS, max_len=MAX_LEN, store=store))
            )
            for i, kind in enumerate(kinds)
        ]
        weights = weights_of()
        for one in engines:
            one.take_weights(weights, 3)
        policy = KvBudgetPolicy([KV_TOKENS] * 4)
        pairs = run(engines, policy, num=64, version=3, max_response=400)
    assert sorted(rollout.sample for rollout, _ in pairs) == list(range(64))
    assert {rollout.stop for rollout, _ in pairs} <= {StopReason.ANSWER, StopReason.LENGTH}
    restarts = [clock.num_restarts for _, clock in pairs]
    assert 1 <= sum(restarts) <= 16  # the share of one engine
    assert max(restarts) == 1
    out = capsys.readouterr().out
    assert "engine 0 is lost: EngineProcessEnded: engine process 0 ended (signal SIGKILL)" in out
