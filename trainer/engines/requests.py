"""The records of the engine interface: `GenerateRequest`, `Completion` and `EngineReport`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Finish(StrEnum):
    """Reason why a completion ended."""

    STOP = "stop"
    """A stop id was sampled; it is the last of `ids`."""
    LENGTH = "length"
    """max_new tokens were sampled."""
    ABORTED = "aborted"


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateRequest:
    """Request to continue `ids` by one turn."""

    ids: list[int]
    """The whole context. The engine may reuse the cache that it holds for `session`."""
    max_new: int
    seed: int
    """Seed of this turn's sampling; unique per (run, step, problem, sample, turn) (public fault B30)."""
    stop_ids: tuple[int, ...]
    temperature: float
    """0 is greedy; log-probs are then those at temperature 1."""
    top_p: float = 1.0
    """Below 1 for evaluation only; it narrows the draw and leaves log-probs unchanged."""
    session: str
    """The trajectory; at most one request of a session is in flight."""
    policy_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Completion:
    """Sampled tokens of one request."""

    session: str
    ids: list[int]
    logprobs: list[float]
    """log softmax(logits / T) of each sampled token, nats, float32 or better."""
    finish: Finish
    policy_version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EngineReport:
    """State of one engine, for the scheduler."""

    engine: int
    t: float
    """The engine's own count or clock; the loop replaces it by its own time before it calls a policy."""
    free_kv_tokens: int
    capacity_tokens: int
    running: int
    waiting: int
    preemptions: int
