"""`Engine`: the interface between token generators and their callers, the rollout loop and RL."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from trainer.engines.requests import Completion, EngineReport, GenerateRequest

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedConfig


@dataclass(frozen=True, slots=True)
class LiveWeights:
    """Weights of a model in this process; an engine copies them."""

    tensors: Mapping[str, Tensor]
    """Parameters by their names in transformers; tied ones once."""
    config: PreTrainedConfig


class Recovery(Enum):
    """State of an engine after its loss."""

    GONE = auto()
    """It never takes requests again."""
    RESTARTING = auto()
    """It calls `wake` when this changes; until then `submit` and `advance` raise."""
    BACK = auto()
    """It holds the weights of `version`, no request and no cache, and takes requests again."""


class Engine(Protocol):
    """Generates tokens for one rollout loop. Calls are not thread-safe; sampling settings travel with the request.

    Each submitted request yields exactly one completion. An exception other than ValueError means that the engine
    is lost, with its requests and caches; `recovery` then reports whether it returns. An engine that ends with
    requests in flight raises at least once, even if it restarts at once.
    """

    @property
    def computes(self) -> bool:
        """True if `advance` computes in the caller's thread; False if the engine works by itself."""
        ...

    @property
    def version(self) -> int:
        """Policy version of the weights that it holds; completions repeat it."""
        ...

    @property
    def recovery(self) -> Recovery:
        """State after the loss; valid only after a call raised. An engine that never restarts is GONE."""
        ...

    def call_when_done(self, wake: Callable[[], None]) -> None:
        """Call `wake`, from any thread, whenever `advance` has something to return or `recovery` changes."""
        ...

    def submit(self, request: GenerateRequest) -> None:
        """Accept one turn. Raises ValueError if the session is already in flight or the request cannot be served."""
        ...

    def advance(self) -> list[Completion]:
        """Return the finished completions, in order of session, without waiting for more.

        An engine that computes in this process runs one decode iteration first.
        """
        ...

    def abort(self, session: str) -> None:
        """Stop the session's request; it yields one Completion with finish `aborted`. Ignores unknown sessions."""
        ...

    def release(self, session: str) -> None:
        """Drop the session's cache. Ignores unknown sessions."""
        ...

    def report(self) -> EngineReport | None:
        """The engine's state, or None if it is not available."""
        ...

    def take_weights(self, source: Path | LiveWeights, version: int) -> None:
        """Load the weights of a checkpoint folder or of this process as `version`; drop every cached context (B43).

        Raises RuntimeError while requests are in flight.
        """
        ...

    def close(self) -> None:
        """Free threads and memory; no call may follow."""
        ...
