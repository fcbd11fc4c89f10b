"""The border between the rollout loop and whatever generates tokens."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from trainer.engines.requests import Completion, EngineReport, GenerateRequest


class Engine(Protocol):
    """Generates tokens. Sampling settings (temperature, top_p) belong to the engine, not to a request.

    One engine serves one rollout loop; none of the calls is thread-safe. `advance` is the only one that computes.
    """

    iteration: int
    """Decode iterations so far. A deterministic rollout rejoins a fixed number of iterations after it left."""

    def submit(self, request: GenerateRequest) -> None:
        """Accept one turn. Raises ValueError if the session is already in flight or the context cannot fit."""
        ...

    def advance(self, timeout_s: float = 0.0) -> list[Completion]:
        """Do one unit of work and return what finished, in order of session.

        A local engine runs one decode iteration (an idle one, when nothing runs, only counts). A remote
        engine waits up to `timeout_s` for the next completions.
        """
        ...

    def abort(self, session: str) -> None:
        """Stop the session's request; it yields one Completion with finish `aborted`."""
        ...

    def report(self) -> EngineReport: ...

    def release(self, session: str) -> None:
        """Forget the session's cache. Unknown sessions are ignored."""
        ...

    def load_weights(self, checkpoint: Path, version: int) -> None:
        """Take the weights of a checkpoint folder as `version`."""
        ...

    def reset_prefix_cache(self) -> None:
        """Drop every cached context; due after each change of weights (public fault B43)."""
        ...
