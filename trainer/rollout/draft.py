"""`RolloutDraft`: an unfinished rollout, which grows by sampled tokens and by text for the model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from records.seeds import derive_seed
from records.tool_call import ToolResult
from records.trajectory import CallKind, Rollout, StopReason, Turn
from trainer.rollout.task import RolloutSettings, Task


@dataclass(slots=True, kw_only=True)
class RolloutDraft:
    """Tokens and turns so far. Ids are appended as the engine sampled them (public faults B9, B10)."""

    task: Task
    settings: RolloutSettings
    session: str
    """Name for the engine, the scheduler and the tool; unique within a batch."""
    seed: int
    ids: list[int] = field(default_factory=list)
    mask: list[bool] = field(default_factory=list)
    logprob: list[float] = field(default_factory=list)
    prompt_len: int = 0
    turns: list[Turn] = field(default_factory=list)

    @classmethod
    def of(cls, task: Task, settings: RolloutSettings) -> Self:
        """A draft without a token."""
        names = (settings.benchmark, task.step, task.problem.id, task.sample)
        return cls(
            task=task,
            settings=settings,
            session="/".join(map(str, names)),
            seed=derive_seed(settings.seed, *names),
        )

    @property
    def response_len(self) -> int:
        """Tokens after the prompt, tool responses included."""
        return len(self.ids) - self.prompt_len

    @property
    def room(self) -> int:
        """Tokens left, within the response budget and within the context, which includes the prompt."""
        settings = self.settings
        context = settings.max_prompt + settings.max_response - len(self.ids)
        return min(settings.max_response - self.response_len, context)

    @property
    def turn_seed(self) -> int:
        """Seed of the next turn."""
        return derive_seed(self.seed, len(self.turns))

    def open(self, prompt_ids: Sequence[int]) -> None:
        """Put the prompt at the start of an empty draft."""
        self.show(prompt_ids)
        self.prompt_len = len(self.ids)

    def show(self, ids: Sequence[int]) -> None:
        """Append tokens that the policy did not sample."""
        self.ids += ids
        self.mask += [False] * len(ids)
        self.logprob += [0.0] * len(ids)

    def add_turn(self, ids: Sequence[int], logprobs: Sequence[float], text: str) -> None:
        """Append a sampled turn; `text` is its decoded ids."""
        start = len(self.ids)
        self.ids += ids
        self.mask += [True] * len(ids)
        self.logprob += logprobs
        self.turns.append(Turn(text=text, start=start, end=len(self.ids), call=CallKind.NONE))

    def set_call(self, call: CallKind, *, num_extra_calls: int, code: str | None) -> None:
        """Store the call of the last turn."""
        self.turns[-1] = replace(self.turns[-1], call=call, num_extra_calls=num_extra_calls, code=code)

    def set_result(self, result: ToolResult) -> None:
        """Store the result of the last turn's call, without its clock."""
        self.turns[-1] = replace(self.turns[-1], result=result.without_clock())

    def end(self, stop: StopReason, detail: str = "") -> Rollout:
        """The finished rollout."""
        task, settings = self.task, self.settings
        return Rollout(
            run=settings.run,
            checkpoint=settings.checkpoint,
            benchmark=settings.benchmark,
            problem=task.problem.id,
            sample=task.sample,
            step=task.step,
            control=settings.control,
            ids=self.ids,
            mask=self.mask,
            logprob=self.logprob,
            prompt_len=self.prompt_len,
            turns=self.turns,
            T=settings.temperature,
            top_p=settings.top_p,
            seed=self.seed,
            policy_version=settings.policy_version,
            stop=stop,
            detail=detail,
            ids_source=settings.ids_source,
        )
