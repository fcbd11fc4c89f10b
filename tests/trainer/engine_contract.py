"""`CONTRACT`: the behaviour of every engine; each function raises AssertionError if it does not hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from trainer.engines.protocol import Engine
from trainer.engines.requests import Completion, Finish, GenerateRequest
from trainer.rollout.wake import Wake

REQUEST = GenerateRequest(
    ids=[1, 2, 3], max_new=4, seed=5, stop_ids=(0,), temperature=1.0, session="a", policy_version=0
)


def completed(engine: Engine, count: int) -> list[Completion]:
    """The next `count` completions of an engine; a last call checks for surplus ones."""
    wake, found = Wake(), engine.advance()
    engine.call_when_done(wake.call)
    while len(found) < count:
        if not engine.computes:
            wake.wait(0.1)
        found += engine.advance()
    return found + engine.advance()


def each_request_yields_one_completion(engine: Engine) -> None:
    for number in range(5):
        engine.submit(replace(REQUEST, session=f"s{number}", seed=number))
    done = completed(engine, 5)
    assert sorted(one.session for one in done) == [f"s{number}" for number in range(5)]
    for one in done:
        assert one.finish in (Finish.STOP, Finish.LENGTH)
        assert len(one.ids) == len(one.logprobs) <= REQUEST.max_new
        assert one.policy_version == engine.version == 0


def equal_seeds_give_equal_ids(engine: Engine) -> None:
    engine.submit(REQUEST)
    engine.submit(replace(REQUEST, session="b"))
    one, other = completed(engine, 2)
    assert one.ids == other.ids


def a_turn_without_a_stop_id_ends_at_its_length(engine: Engine) -> None:
    engine.submit(replace(REQUEST, max_new=1))
    (done,) = completed(engine, 1)
    assert done.finish is Finish.LENGTH or done.ids == [0]
    assert len(done.ids) == 1


def an_aborted_request_yields_one_aborted_completion(engine: Engine) -> None:
    engine.submit(REQUEST)
    engine.submit(replace(REQUEST, session="b"))
    engine.abort("a")
    engine.abort("unknown")
    done = {one.session: one.finish for one in completed(engine, 2)}
    # An engine that works by itself may have answered before the abort.
    assert done.pop("a") is Finish.ABORTED or not engine.computes
    assert set(done.values()) <= {Finish.STOP, Finish.LENGTH}
    engine.submit(REQUEST)
    assert [one.session for one in completed(engine, 1)] == ["a"]


def a_session_has_one_request_in_flight(engine: Engine) -> None:
    engine.submit(REQUEST)
    with pytest.raises(ValueError, match="in flight"):
        engine.submit(REQUEST)
    assert len(completed(engine, 1)) == 1


def a_released_session_begins_anew(engine: Engine) -> None:
    engine.release("unknown")
    engine.submit(REQUEST)
    (first,) = completed(engine, 1)
    engine.release("a")
    engine.submit(REQUEST)
    (second,) = completed(engine, 1)
    assert len(first.ids) == len(second.ids)


def a_report_is_true_or_unknown(engine: Engine) -> None:
    report = engine.report()
    if report is not None:
        assert 0 <= report.free_kv_tokens <= report.capacity_tokens
        assert report.running == report.waiting == 0


CONTRACT = (
    each_request_yields_one_completion,
    equal_seeds_give_equal_ids,
    a_turn_without_a_stop_id_ends_at_its_length,
    an_aborted_request_yields_one_aborted_completion,
    a_session_has_one_request_in_flight,
    a_released_session_begins_anew,
    a_report_is_true_or_unknown,
)
