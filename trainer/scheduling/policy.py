"""`Policy`: the interface of scheduling policies, which decide the engine of each rollout and when it starts.

Policies are event-driven and hold state; they see lengths and reports, never tokens. The live loop
(`trainer.rollout.loop`) and the simulator call the same classes with the same records.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from trainer.engines.requests import EngineReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrival:
    """A turn that needs an engine: the first of a rollout, one after a tool call, or one whose engine was lost."""

    session: str
    group: str
    """Problem id; siblings share a prompt."""
    context_tokens: int
    """Tokens already in the context."""
    max_new: int
    """Upper bound of the tokens that the rest of this rollout adds, tool responses included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    session: str
    engine: int


LOST = 10**9
"""Added to the load of a lost engine, so that it is never the least loaded one."""


class Policy(Protocol):
    """Each event returns the assignments that it makes possible; an arrival is assigned exactly once."""

    def on_arrive(self, arrival: Arrival, t: float) -> list[Assignment]: ...

    def on_report(self, report: EngineReport) -> list[Assignment]: ...

    def on_turn_end(self, session: str, t: float, context_tokens: int | None = None) -> list[Assignment]:
        """The session left its engine for a tool; its cache stays there. `context_tokens`: its current length."""
        ...

    def on_engine_lost(self, engine: int, t: float) -> None:
        """The engine takes nothing and its caches are lost; its rollouts arrive again.

        Nothing arrives while all engines are lost.
        """
        ...

    def on_engine_back(self, engine: int, t: float) -> list[Assignment]:
        """The lost engine takes requests again and holds no cache."""
        ...

    def on_finish(self, session: str, t: float, context_tokens: int | None = None) -> list[Assignment]:
        """The rollout ended; its cache is free. `context_tokens`: its length, from which policies learn."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulingPolicy:
    """Declaration of a module of `trainer.scheduling.policies`; `rollout.scheduler` and the study use its name."""

    name: str
    """Name of its file."""
    make: Callable[[Sequence[int]], Policy]
    """Makes a new policy for each batch, from the cached tokens that each engine can hold."""
