"""A loopback server that answers, drops, stalls or fails: completions, retries, aborts."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from records.errors import ConfigError
from records.problem import Problem
from records.trajectory import StopReason
from records.verdict import VerdictKind
from tests.trainer.fakes import END, CharCodec, ScriptedEngine, a_loop, script
from tests.trainer.server import Server, serving
from trainer.engines.endpoint import EndpointEngine
from trainer.engines.protocol import Engine
from trainer.engines.requests import Completion, Finish, GenerateRequest
from trainer.metrics.step_metrics import rollout_metrics
from trainer.rollout.task import Task
from trainer.rollout.wake import Wake
from verifier.graders.grade import grade


def choice(text: str, reason: object = "stop") -> dict[str, Any]:
    return {"choices": [{"text": text, "finish_reason": reason}]}


def completed(engine: Engine, count: int) -> list[Completion]:
    """The next `count` completions of an engine."""
    wake, found = Wake(), engine.advance()
    engine.call_when_done(wake.call)
    while len(found) < count:
        found += engine.advance()
        if len(found) < count and not engine.computes:
            wake.wait(0.1)
    return found


def ask(server: Server, *prompts: str, timeout_s: float = 10.0) -> dict[str, Completion]:
    codec = CharCodec()
    with EndpointEngine.open(server.base, codec=codec, timeout_s=(5.0, timeout_s)) as engine:
        for prompt in prompts:
            engine.submit(
                GenerateRequest(
                    ids=codec.encode(prompt),
                    max_new=9,
                    seed=5,
                    stop_ids=(END,),
                    temperature=0.6,
                    session=prompt,
                    policy_version=0,
                )
            )
        found = {completion.session: completion for completion in completed(engine, len(prompts))}
    return found


def test_text_comes_back_as_ids_with_the_end_of_the_turn() -> None:
    with serving(lambda body, number: choice("yes")) as server:
        (done,) = ask(server, "ok?").values()
    assert (done.ids, done.finish) == ([*CharCodec().encode("yes"), END], Finish.STOP)
    (request,) = server.requests
    assert request == {
        "model": "served", "prompt": "ok?", "max_tokens": 9, "seed": 5, "stop": ["<|im_end|>"],
        "temperature": 0.6, "top_p": 1.0,
    }  # fmt: skip


def test_a_response_cut_at_the_limit_has_no_end() -> None:
    with serving(lambda body, number: choice("yes and", "length")) as server:
        (done,) = ask(server, "ok?").values()
    assert (done.ids, done.finish) == (CharCodec().encode("yes and"), Finish.LENGTH)


@pytest.mark.parametrize(
    "reason", ["abort", None, "content_filter", "error", "tool_calls", "", "STOP", 3, {"type": "stop"}]
)
def test_an_ending_other_than_stop_and_length_aborts_the_turn(
    reason: object, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(lambda body, number: choice("half an ans", reason)) as server:
        done = ask(server, "ok?", "and?")
    assert {completion.finish for completion in done.values()} == {Finish.ABORTED}
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "finish_reason" in line]
    assert "infra_failed" in line
    assert repr(reason) in line


def test_thirty_aborted_requests_are_thirty_lost_samples() -> None:
    problem = Problem(id="p", prompt="what is 2 + 2?", answer="4")
    tasks = [Task(problem=problem, sample=sample) for sample in range(30)]
    text = "so</reason><answer>\\boxed{5}</answer>"
    with (
        serving(lambda body, number: choice(text, ("abort", None, "content_filter")[number % 3])) as server,
        EndpointEngine.open(server.base, codec=CharCodec()) as engine,
    ):
        lost = [
            trajectory
            for trajectory, _ in replace(a_loop(ScriptedEngine(script())), engines=[engine], wake=Wake()).run(
                tasks
            )
        ]
    assert len(lost) == 30
    assert {(t.stop, t.detail) for t in lost} == {(StopReason.ABORTED, "engine")}
    kinds = {verdict.verdict for t in lost for verdict in grade(problem, t).values()}
    assert kinds == {VerdictKind.INFRA_FAILED}
    assert "accuracy" not in rollout_metrics([t.graded(reward=None) for t in lost])
    assert engine.num_failed == 30


def test_a_response_without_an_ending_aborts_the_turn() -> None:
    with serving(lambda body, number: {"choices": [{"text": "half"}]}) as server:
        (done,) = ask(server, "ok?").values()
    assert done.finish is Finish.ABORTED


def test_text_that_the_tokenizer_refuses_aborts_the_turn() -> None:

    class Choosy(CharCodec):
        def encode(self, text: str) -> list[int]:
            if "\ud83d" in text:
                raise TypeError("a lone surrogate")
            return super().encode(text)

    with (
        serving(lambda body, number: choice("half a pair: \ud83d")) as server,
        EndpointEngine.open(
            server.base,
            codec=Choosy(),
            timeout_s=(5.0, 10.0),
        ) as engine,
    ):
        engine.submit(
            GenerateRequest(
                ids=[65], max_new=9, seed=5, stop_ids=(END,), temperature=0.6, session="s", policy_version=0
            )
        )
        done = completed(engine, 1)
    assert [(one.session, one.finish, one.ids) for one in done] == [("s", Finish.ABORTED, [])]


@pytest.mark.parametrize("fault", [None, 503, 429])
def test_a_dropped_connection_and_a_busy_server_are_retried(fault: int | None) -> None:
    with serving(lambda body, number: choice("yes") if number else fault) as server:
        (done,) = ask(server, "ok?").values()
    assert (done.finish, len(server.requests)) == (Finish.STOP, 2)


@pytest.mark.slow
@pytest.mark.parametrize("fault", [None, 500, {"choices": []}, {"choices": [{"text": 3}]}])
def test_a_request_that_keeps_failing_is_aborted_after_a_few_tries(fault: Any) -> None:
    with serving(lambda body, number: fault if body["prompt"] == "bad" else choice("yes")) as server:
        done = ask(server, "bad", "good")
    assert (done["bad"].finish, done["bad"].ids) == (Finish.ABORTED, [])
    assert done["good"].finish is Finish.STOP
    assert sum(request["prompt"] == "bad" for request in server.requests) <= 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "promised"),
    [(b"<html><body>502 Bad Gateway</body></html>", 0), (b'{"choices": [{"text": "ye', 30)],
    ids=["an HTML page", "an answer that breaks off"],
)
def test_an_answer_that_is_none_is_a_lost_sample_and_never_a_score(page: bytes, promised: int) -> None:
    with serving(lambda body, number: page if body["prompt"] == "bad" else choice("yes")) as server:
        server.promised = promised
        done = ask(server, "bad", "good")
    assert (done["bad"].finish, done["bad"].ids) == (Finish.ABORTED, [])
    assert done["good"].finish is Finish.STOP


def test_a_server_whose_list_of_models_is_an_html_page_is_one_line() -> None:
    with serving(lambda body, number: choice("yes")) as server:
        server.models = b"<html></html>"
        with pytest.raises(ConfigError, match=r"in something other than JSON; is a server running there\?"):
            EndpointEngine.open(server.base, codec=CharCodec()).__enter__()


@pytest.mark.slow
def test_a_stalled_server_is_a_time_out() -> None:
    release = threading.Event()

    def stall(body: dict[str, Any], number: int) -> Any:
        release.wait(30)

    with serving(stall) as server:
        (done,) = ask(server, "ok?", timeout_s=0.3).values()
        release.set()
    assert done.finish is Finish.ABORTED


def test_an_absent_server_is_one_line() -> None:
    with serving(lambda body, number: choice("yes")) as server:
        base = server.base
    with pytest.raises(
        ConfigError, match=r"endpoint http://127\.0\.0\.1:\d+/v1: cannot be reached .*is a server"
    ):
        EndpointEngine.open(base, codec=CharCodec()).__enter__()


@pytest.mark.slow
def test_a_server_that_disappears_ends_the_evaluation() -> None:
    server = Server(lambda body, number: None)
    codec = CharCodec()
    with EndpointEngine.open(server.base, codec=codec) as engine:
        server.close()
        engine.submit(
            GenerateRequest(
                ids=codec.encode("q"),
                max_new=9,
                seed=1,
                stop_ids=(END,),
                temperature=0.6,
                session="s",
                policy_version=0,
            )
        )
        with pytest.raises(ConfigError, match=r"stopped answering .*finished work is kept"):
            completed(engine, 1)
