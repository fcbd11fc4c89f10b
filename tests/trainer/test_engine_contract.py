"""The local engine, the endpoint and the scripted fake satisfy `tests.trainer.engine_contract`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

from tests.trainer.engine_contract import CONTRACT
from tests.trainer.fakes import ANSWER, CharCodec, ScriptedEngine, script
from tests.trainer.server import serving
from tests.trainer.tiny_models import tiny_model
from trainer.engines.endpoint import EndpointEngine
from trainer.engines.local import LocalEngine
from trainer.engines.protocol import Engine, LiveWeights


@contextmanager
def scripted() -> Iterator[Engine]:
    yield ScriptedEngine(script(*[ANSWER] * 9))


@contextmanager
def local() -> Iterator[Engine]:
    model = tiny_model()
    engine = LocalEngine(engine=0, capacity_tokens=1000, max_len=100)
    engine.take_weights(LiveWeights(model.state_dict(), model.config), 0)
    yield engine
    engine.close()


def _answer(body: dict[str, Any], number: int) -> dict[str, Any]:
    text = "yes"[: body["max_tokens"]]
    return {"choices": [{"text": text, "finish_reason": "stop" if text == "yes" else "length"}]}


@contextmanager
def endpoint() -> Iterator[Engine]:
    with serving(_answer) as server, EndpointEngine.open(server.base, codec=CharCodec()) as engine:
        yield engine


@pytest.mark.parametrize("behaviour", CONTRACT, ids=lambda behaviour: behaviour.__name__)
@pytest.mark.parametrize("opened", [scripted, local, endpoint], ids=lambda opened: opened.__name__)
def test_an_engine_satisfies_the_contract(
    opened: Callable[[], AbstractContextManager[Engine]], behaviour: Callable[[Engine], None]
) -> None:
    with opened() as engine:
        behaviour(engine)
