"""`Trajectory`: one rollout as it was sampled, with what it earned; also the row of every samples file.

Suffixes: P prompts, G rollouts of a group, N rows, T packed tokens, L tokens of one row, V vocabulary.
JSON and Parquet use exactly these field names.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Self

from records.tool_call import ToolResult
from records.verdict import Verdict

SCHEMA_VERSION = 1


class StopReason(StrEnum):
    """Why a rollout ended."""

    ANSWER = "answer"
    """The model ended a turn without a tool call."""
    LENGTH = "length"
    """The response budget ran out while the model was writing."""
    MAX_TURNS = "max_turns"
    """The last allowed turn still asked for a tool; that call is not run."""
    CONTEXT = "context"
    """The tool response would not have fitted into what was left of the budget; it is not shown."""
    ABORTED = "aborted"
    """Our failure: out of baseline and loss, counted."""

    @property
    def is_models(self) -> bool:
        """The model ended it, by what it wrote or by running out; any other end is no score."""
        return self in (StopReason.ANSWER, StopReason.LENGTH, StopReason.MAX_TURNS, StopReason.CONTEXT)


class CallKind(StrEnum):
    """What the tool call of a turn turned out to be."""

    NONE = "none"
    PARSE_ERROR = "parse_error"
    UNKNOWN_TOOL = "unknown_tool"
    EXECUTED = "executed"


class IdsSource(StrEnum):
    SAMPLED = "sampled"
    RETOKENISED = "retokenised"
    """The engine returned text: ids are a guess. Entropy and training refuse such rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One assistant turn and, if it called a tool, what came of it."""

    text: str
    """Decoded from ids[start:end]; for reading only."""
    start: int
    """First sampled token of the turn, index into `Trajectory.ids`."""
    end: int
    """One past the last sampled token (the end-of-turn token included)."""
    call: CallKind
    num_extra_calls: int = 0
    """Calls after the first in the same turn: not run, answered by a fixed message."""
    result: ToolResult | None = None
    """The sandbox's answer without its clock; None unless `call` is executed and was run."""
    code: str | None = None
    """What ran."""


@dataclass(slots=True, kw_only=True)
class Trajectory:
    """One rollout: exactly what was sampled, under which policy, and what it earned.

    `ids`, `mask`, `logprob` have one entry per token (L), prompt included. They are never re-tokenised.
    """

    run: str
    checkpoint: str
    benchmark: str
    """Benchmark name, or the stage (rl1, rl2, rl3, filter) for training rollouts."""
    problem: str
    sample: int
    step: int = 0
    """RL step the rollout belongs to; 0 in evaluation."""
    control: str = "none"
    """none, or the shortcut control it was sampled under (tool_off)."""
    ids: list[int] = field(default_factory=list)
    mask: list[bool] = field(default_factory=list)
    """True where the policy sampled the token."""
    logprob: list[float] = field(default_factory=list)
    """Behaviour log-prob, nats, at temperature T; 0 where masked."""
    prompt_len: int = 0
    """Tokens before the first sampled one (the pre-filled opening included)."""
    turns: list[Turn] = field(default_factory=list)
    T: float = 1.0
    """Sampling temperature."""
    top_p: float = 1.0
    seed: int = 0
    policy_version: int = 0
    stop: StopReason = StopReason.ABORTED
    reward: float | None = None
    """None until graded, and for ever when grading failed."""
    p_err: float = 0.0
    """Paper Eq. 4."""
    p_format: float = 0.0
    """Paper Eq. 5."""
    kept: bool | None = None
    """Did RoC keep it; None where no selection took place."""
    reason: str = ""
    """Why kept or dropped."""
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    """One per grader."""
    ids_source: IdsSource = IdsSource.SAMPLED
    schema_version: int = SCHEMA_VERSION

    @property
    def key(self) -> tuple[str, str, str, str, float, int, str, int]:
        """Sort key of samples files; unique within one run."""
        return (
            self.run,
            self.checkpoint,
            self.benchmark,
            self.control,
            self.T,
            self.step,
            self.problem,
            self.sample,
        )

    @property
    def num_sampled(self) -> int:
        """Sampled tokens, |o_i| of the paper's Eq. 6."""
        return sum(self.mask)

    @property
    def response_len(self) -> int:
        """Tokens after the prompt, tool responses included."""
        return len(self.ids) - self.prompt_len

    def to_json(self) -> dict[str, Any]:
        # Not asdict on the whole: it would visit every id, mask and log-prob.
        record = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return record | {
            "turns": [asdict(turn) for turn in self.turns],
            "verdicts": {name: asdict(verdict) for name, verdict in self.verdicts.items()},
        }

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Self:
        turns = [
            Turn(
                **{
                    **turn,
                    "call": CallKind(turn["call"]),
                    "result": ToolResult.from_json(turn["result"]) if turn["result"] else None,
                }
            )
            for turn in record["turns"]
        ]
        return cls(
            **{
                **record,
                "turns": turns,
                "stop": StopReason(record["stop"]),
                # A Parquet row holds a place for every grader; those that did not grade it are null.
                "verdicts": {
                    name: Verdict.from_json(v) for name, v in (record["verdicts"] or {}).items() if v
                },
                "ids_source": IdsSource(record["ids_source"]),
            }
        )
