"""`synthetic`: rollout batches for the simulator, with lengths, turns and tool times drawn from a seed.

No trace of a real run is used. The spread of lengths and the share common to siblings are those of docs/scheduler.md;
mean and cap are those of the paper's stages 1 and 2 (8K and 12K).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from random import Random

SPREAD = 0.8
"""Standard deviation of log response length; half of the variance belongs to the problem and is shared by siblings."""
MEAN_TOOL_S = 0.3
"""Paper section 3.1: a tool call takes 0.3 s on average."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnWork:
    """One turn: tokens to sample, then, unless it is the last, a tool call and its response."""

    num_sampled: int
    tool_s: float = 0.0
    tool_tokens: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutWork:
    """Script of one rollout; a policy never sees it."""

    session: str
    group: str
    prompt_tokens: int
    turns: tuple[TurnWork, ...]

    @property
    def num_sampled(self) -> int:
        return sum(turn.num_sampled for turn in self.turns)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A batch of rollouts, all present at time 0, siblings in sequence."""

    name: str
    max_response: int
    rollouts: tuple[RolloutWork, ...]


def synthetic(
    name: str, *, seed: int, num_prompts: int, group_size: int, median_response: int, max_response: int
) -> Workload:
    """Draw a batch. Response length is log-normal around the median, cut at the cap; 1 to 5 turns."""
    rng = Random(f"{name}/{seed}")
    rollouts = []
    for prompt in range(num_prompts):
        prompt_tokens = rng.randint(150, 600)
        group_log = log(median_response) + rng.gauss(0.0, SPREAD / 2**0.5)
        for sample in range(group_size):
            length = min(
                max_response, max(32, int(2.718281828 ** (group_log + rng.gauss(0.0, SPREAD / 2**0.5))))
            )
            rollouts.append(
                RolloutWork(
                    session=f"p{prompt}/{sample}",
                    group=f"p{prompt}",
                    prompt_tokens=prompt_tokens,
                    turns=_turns(rng, length),
                )
            )
    return Workload(name=name, max_response=max_response, rollouts=tuple(rollouts))


def _turns(rng: Random, length: int) -> tuple[TurnWork, ...]:
    """Split a response of `length` tokens, tool responses included, into turns of unequal size."""
    count = min(rng.randint(1, 5), 1 + length // 128)
    tool_tokens = [min(rng.randint(10, 150), length // (2 * count)) for _ in range(count - 1)] + [0]
    shares = [rng.expovariate(1.0) + 0.05 for _ in range(count)]
    left = length - sum(tool_tokens) - count
    sampled = [1 + int(left * share / sum(shares)) for share in shares]
    sampled[-1] += length - sum(tool_tokens) - sum(sampled)
    return tuple(
        TurnWork(
            num_sampled=n,
            tool_tokens=tokens,
            tool_s=rng.expovariate(1.0 / MEAN_TOOL_S) if turn + 1 < count else 0.0,
        )
        for turn, (n, tokens) in enumerate(zip(sampled, tool_tokens, strict=True))
    )
