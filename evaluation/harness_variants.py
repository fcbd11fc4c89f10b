"""`variant` and `dry_run`: settings that measure how much of a score comes from the harness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from config.commands import SamplingView
from config.model import EvalPlan
from records.errors import ConfigError
from verifier.benchmarks import benchmark

"""Presets with a model that no engine of the suite can hold yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One changed setting; its rows have their own folder."""

    name: str
    max_turns: int | None = None
    response_chars: int | None = None
    what: str

    def applied(self, view: SamplingView) -> SamplingView:
        """Return the view with this setting changed."""
        changes: dict[str, Any] = {}
        if self.max_turns is not None:
            changes["eval"] = view.eval.model_copy(update={"max_turns": self.max_turns})
        if self.response_chars is not None:
            tool = view.rollout.tool.model_copy(update={"response_chars": self.response_chars})
            changes["rollout"] = view.rollout.model_copy(update={"tool": tool})
        return view.model_copy(update=changes)


VARIANTS = (
    *(
        Variant(name=f"turns_{count}", max_turns=count, what=f"at most {count} turn{'s' * (count > 1)}")
        for count in (1, 5, 10, 30)
    ),
    *(
        Variant(
            name=f"tool_text_{count}", response_chars=count, what=f"{count} characters of a tool response"
        )
        for count in (128, 1000)
    ),
)
"""The grader is no variant: every samples file holds the verdicts of strict and rstar_compat."""


def variant(name: str) -> Variant:
    """Return the variant of that name; a ConfigError lists the names.

    >>> variant("turns_5").max_turns
    5
    """
    for candidate in VARIANTS:
        if candidate.name == name:
            return candidate
    raise ConfigError(f"--variant {name}: must be one of {', '.join(v.name for v in VARIANTS)}")


def num_trajectories(plans: Sequence[EvalPlan]) -> int:
    """Return the number of samples of the plans if all questions are available.

    >>> from config.model import Control
    >>> plan = EvalPlan(checkpoint="base", benchmarks=["aime24", "aime25"], k=16, temperature=0.6, limit=None,
    ...     control=Control.NONE)
    >>> num_trajectories([plan])
    960
    """
    total = 0
    for plan in plans:
        for name in plan.benchmarks:
            size = benchmark(name).num_questions if name != "procedural" else 0
            total += plan.k * (min(size, plan.limit) if plan.limit else size)
    return total


def dry_run(plans: Sequence[EvalPlan], view: SamplingView) -> list[str]:
    """Return lines with the questions, the settings and the maximum cost of the plans."""
    eval_, tool = view.eval, view.rollout.tool
    lines = [
        f"turns {eval_.max_turns}, response {eval_.max_response} tokens, prompt {eval_.max_prompt} tokens, "
        f"top_p {eval_.top_p:g}, seed {eval_.seed}",
        f"tool {tool.name}, {tool.state}, {tool.response_chars} characters of a response, system prompt "
        f"{view.rollout.system}",
    ]
    lines += [
        f"{', '.join(plan.benchmarks)}: k {plan.k}, T {plan.temperature:g}, "
        f"{'all questions' if plan.limit is None else f'{plan.limit} questions each'}, control {plan.control}"
        for plan in plans
    ]
    samples = num_trajectories(plans)
    lines.append(
        f"cost: {samples:,} trajectories, at most {samples * eval_.max_response:,} sampled tokens; per variant as much"
    )
    return lines + [f"variant {variant.name}: {variant.what}" for variant in VARIANTS]
