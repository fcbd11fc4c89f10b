"""`differences` and `paper_plans`: the published settings (profile `paper`), and deviations from them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from config.commands import SamplingView
from config.model import Control, EvalPlan
from records.evaluation import PaperDifference
from verifier.benchmarks import Benchmark, benchmark

PUBLISHED = ("aime24", "aime25", "hmmt25", "math500", "gpqa_diamond", "bfcl_v3", "bfcl_v3_prompt", "ifeval")
"""Benchmarks with a score in the paper. The paper does not state its mode of BFCL."""
TOP_P = 1.0
"""Paper section 5.1 states a temperature and no nucleus."""


def differences(declared: Benchmark, plan: EvalPlan, view: SamplingView) -> list[PaperDifference]:
    """Return the differences from the published settings; empty for a benchmark that is not in the paper.

    Args:
        declared: the benchmark.
        plan: samples, temperature, limit and control.
        view: the sections eval and rollout count.
    """
    if declared.name not in PUBLISHED:
        return []
    published = declared.sampling
    rows = [
        ("samples per question", published.num_samples, plan.k),
        ("temperature", published.temperature, plan.temperature),
        ("top_p", TOP_P, view.eval.top_p),
        ("response tokens", published.max_tokens, view.eval.max_response),
        (
            "questions",
            declared.num_questions,
            min(plan.limit or declared.num_questions, declared.num_questions),
        ),
        ("control", Control.NONE.value, plan.control.value),
    ]
    if declared.prompt.is_agentic:
        rows += [
            ("turns", published.max_turns, view.eval.max_turns),
            ("system prompt", "full", view.rollout.system),
        ]
    return [
        PaperDifference(benchmark=declared.name, setting=name, paper=f"{paper}", here=f"{here}")
        for name, paper, here in rows
        if paper != here
    ]


def paper_plans(checkpoint: str, names: Sequence[str], limit: int | None = None) -> list[EvalPlan]:
    """Return one plan per published number of samples and temperature.

    >>> [(plan.k, plan.temperature, plan.benchmarks) for plan in paper_plans("m", ["ifeval", "aime24", "math500"])]
    [(1, 0.0, ['ifeval']), (16, 0.6, ['aime24', 'math500'])]
    """
    plans: dict[tuple[int, float], list[str]] = {}
    for name in names:
        sampling = benchmark(name).sampling
        plans.setdefault((sampling.num_samples, sampling.temperature), []).append(name)
    return [
        EvalPlan.model_construct(
            checkpoint=checkpoint,
            benchmarks=chosen,
            k=k,
            temperature=temperature,
            limit=limit,
            control=Control.NONE,
        )
        for (k, temperature), chosen in plans.items()
    ]


def paper_limits(names: Sequence[str]) -> dict[str, Any]:
    """Return the limits that the profile sets in the section eval."""
    samplings = [benchmark(name).sampling for name in names]
    return {
        "top_p": TOP_P,
        "max_response": max(sampling.max_tokens for sampling in samplings),
        "max_turns": max(sampling.max_turns for sampling in samplings),
    }
