"""`Trajectory`: one row of a samples file, in three frozen steps: `Rollout`, `GradedRollout`, `Trajectory`.

The rollout loop makes a `Rollout`, grading a `GradedRollout` of it, the selection a `Trajectory`. Each step adds
fields and changes none. `records.trajectory_files` writes and reads the rows.

Suffixes: P prompts, G rollouts of a group, N rows, T packed tokens, L tokens of one row, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import StrEnum
from typing import Any

from records.tool_call import Status, ToolResult
from records.verdict import Verdict

SCHEMA_VERSION = 1


class StopReason(StrEnum):
    """Why a rollout ended."""

    ANSWER = "answer"
    """The model ended a turn without a tool call."""
    LENGTH = "length"
    """The response budget ended while the model was writing."""
    MAX_TURNS = "max_turns"
    """The last allowed turn calls a tool; that call is not run."""
    CONTEXT = "context"
    """The tool response did not fit into the rest of the budget; the model does not see it."""
    ABORTED = "aborted"
    """The infrastructure lost the rollout: out of baseline and loss, counted."""

    @property
    def is_models(self) -> bool:
        """Return whether the model ended the rollout, by its text or by a used-up budget; other ends give no score."""
        return self in (StopReason.ANSWER, StopReason.LENGTH, StopReason.MAX_TURNS, StopReason.CONTEXT)


class CallKind(StrEnum):
    """Kind of tool call that a turn makes."""

    NONE = "none"
    PARSE_ERROR = "parse_error"
    UNKNOWN_TOOL = "unknown_tool"
    EXECUTED = "executed"


class IdsSource(StrEnum):
    SAMPLED = "sampled"
    RETOKENISED = "retokenised"
    """The engine returned text, so the ids are a guess. Entropy and training refuse such rows."""


def call_failed(call: CallKind, status: Status | None) -> bool | None:
    """Return whether a call failed by the model's fault; None for a call that does not count.

    A parse error, an unknown tool, or a status of the program other than ok is a failure. A call that the
    infrastructure lost and the call of the last allowed turn, which is not run, count as no call.

    Args:
        call: what the turn asked for.
        status: of the program; None if none ran.

    >>> [call_failed(kind, None) for kind in CallKind]
    [None, True, True, None]
    >>> [call_failed(CallKind.EXECUTED, status) for status in (Status.OK, Status.TIMEOUT, Status.LOST)]
    [False, True, None]
    """
    if call in (CallKind.PARSE_ERROR, CallKind.UNKNOWN_TOOL):
        return True
    if status is None or status.is_infrastructure:
        return None
    return status is not Status.OK


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One assistant turn and the result of its tool call."""

    text: str
    """Decoded from ids[start:end]."""
    start: int
    """First sampled token of the turn, index into `Rollout.ids`."""
    end: int
    """One past the last sampled token (the end-of-turn token included)."""
    call: CallKind
    num_extra_calls: int = 0
    """Calls after the first of the turn; the sandbox runs none of them and the model sees a fixed message."""
    result: ToolResult | None = None
    """Result without its clock; None unless the sandbox ran the call."""
    code: str | None = None
    """Program of the call; None without a call."""

    @property
    def failed_call(self) -> bool | None:
        """Return whether the call failed by the model's fault; None where the turn has no call that counts."""
        return call_failed(self.call, None if self.result is None else self.result.status)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollout:
    """One sampled rollout, exactly as the engine returned it.

    `ids`, `mask`, `logprob` have one entry per token (L), prompt included. Ids are never re-tokenised.
    """

    run: str
    checkpoint: str
    benchmark: str
    """Benchmark name, or the stage (rl1, rl2, rl3, filter) of a training rollout."""
    problem: str
    sample: int
    """Number of the rollout in its group."""
    step: int = 0
    """RL step of the rollout; 0 in evaluation."""
    control: str = "none"
    """none, or the shortcut control of the sampling (tool_off)."""
    ids: Sequence[int] = field(default_factory=list)
    mask: Sequence[bool] = field(default_factory=list)
    """True where the policy sampled the token."""
    logprob: Sequence[float] = field(default_factory=list)
    """Behaviour log-prob, nats, at temperature T; 0 where masked."""
    prompt_len: int = 0
    """Tokens before the first sampled one (the pre-filled opening included)."""
    turns: Sequence[Turn] = field(default_factory=list)
    T: float = 1.0
    """Sampling temperature."""
    top_p: float = 1.0
    seed: int = 0
    policy_version: int = 0
    stop: StopReason = StopReason.ABORTED
    detail: str = ""
    """Why the rollout was lost or not started, for readers; no code branches on it."""
    ids_source: IdsSource = IdsSource.SAMPLED

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
        """Return the number of sampled tokens, |o_i| of the paper's Eq. 6."""
        return sum(self.mask)

    @property
    def response_len(self) -> int:
        """Return the number of tokens after the prompt, tool responses included."""
        return len(self.ids) - self.prompt_len

    @property
    def calls(self) -> list[Turn]:
        """Return the turns whose call counts, see `Turn.failed_call`."""
        return [turn for turn in self.turns if turn.failed_call is not None]

    @property
    def tokens_after_first_error(self) -> int | None:
        """Return the number of sampled tokens after the first failed call; None without a failed call."""
        failed = [turn for turn in self.turns if turn.failed_call]
        return sum(self.mask[failed[0].end :]) if failed else None

    def graded(
        self,
        *,
        reward: float | None,
        verdicts: Mapping[str, Verdict] | None = None,
        p_err: float = 0.0,
        p_format: float = 0.0,
    ) -> GradedRollout:
        """Add grades. Verdicts lose their clock, so that equal runs give equal files.

        >>> Rollout(run="", checkpoint="", benchmark="", problem="a", sample=2).graded(reward=1.0).sample
        2
        """
        return GradedRollout(
            **_values(self, Rollout),
            reward=reward,
            p_err=p_err,
            p_format=p_format,
            verdicts={name: verdict.without_clock() for name, verdict in (verdicts or {}).items()},
        )

    def selected(self, selection: SelectionReason | None = None) -> Trajectory:
        """Add the outcome of the selection; existing grades stay."""
        kind = GradedRollout if isinstance(self, GradedRollout) else Rollout
        return Trajectory(**_values(self, kind), selection=selection)


@dataclass(frozen=True, slots=True, kw_only=True)
class GradedRollout(Rollout):
    """A rollout with its verdicts, its reward and the two penalties of RoC."""

    reward: float | None = None
    """None where no grade exists: the rollout was lost, or grading failed."""
    p_err: float = 0.0
    """Paper Eq. 4."""
    p_format: float = 0.0
    """Paper Eq. 5."""
    verdicts: Mapping[str, Verdict] = field(default_factory=dict)
    """Verdict by grader."""


class SelectionReason(StrEnum):
    """Why a rollout is trained or not. The first two mean kept."""

    KEPT = "kept"
    """Drawn."""
    KEPT_ALL = "kept_all"
    """At most G rollouts are valid, or the rule selects nothing."""
    NOT_DRAWN = "not_drawn"
    """Not drawn into the quota of its class."""
    NO_REWARD = "no_reward"
    """Lost or not graded: out of quota, baseline and loss."""
    OVERLONG = "overlong"
    """Filtered for its length: also out of quota, baseline and loss."""
    EQUAL_REWARD = "equal_reward"
    """All valid rollouts of the group have equal reward, or only one is valid: no gradient."""
    EQUAL_AFTER_SELECTION = "equal_after_selection"
    """The drawn rollouts have no spread (possible with rewards other than 0 and 1)."""
    GROUP_TOO_SMALL = "group_too_small"
    """Release rule only: fewer than G rows, the group is dropped."""

    @property
    def is_kept(self) -> bool:
        return self in (SelectionReason.KEPT, SelectionReason.KEPT_ALL)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trajectory(GradedRollout):
    """A graded rollout with the outcome of the selection: the row of every samples file."""

    selection: SelectionReason | None = None
    """None without a selection."""

    @property
    def kept(self) -> bool | None:
        """Return whether the selection kept the rollout; None without a selection."""
        return None if self.selection is None else self.selection.is_kept

    @property
    def reason(self) -> str:
        """Return the column of the file: why the rollout was lost, else why it was kept or dropped."""
        return self.detail or (self.selection.value if self.selection is not None else "")


def _values(rollout: Rollout, kind: type[Rollout]) -> dict[str, Any]:
    return {column.name: getattr(rollout, column.name) for column in fields(kind)}
