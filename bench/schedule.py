"""`study`: the scheduler study, which runs every policy on the same synthetic workloads in the simulator.

Workload seed 0 is for development and never part of a study. Every number is simulated, and the names of the numbers
state it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Annotated, Any

import typer

from bench.publish import RunOption, publish
from config.command import one_line_errors
from trainer.scheduling.fixed_cap import FixedCapPolicy
from trainer.scheduling.policies import ALL, scheduling_policy
from trainer.scheduling.policy import Policy
from trainer.scheduling.simulation.simulate import Cluster, lower_bound_s, simulate
from trainer.scheduling.simulation.workload import Workload, synthetic

FORECAST = "forecast"
CAPS = (64, 96, 128, 160, 192, 256)
_GROUP_SIZE = 32
_PROMPTS_PER_ENGINE = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Contender:
    """A policy under its name in the tables."""

    name: str
    make: Callable[[Sequence[int]], Policy]
    """From the cached tokens that each engine can hold."""
    synchronised_tools: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lengths:
    """One setting of response lengths, in tokens; the caps are those of the paper's stages 1 and 2."""

    name: str
    median_response: int
    max_response: int


LENGTHS = (
    Lengths(name="synthetic-8k", median_response=3300, max_response=8192),
    Lengths(name="synthetic-12k", median_response=5000, max_response=12288),
)


def contenders(*, quick: bool = False) -> list[Contender]:
    """Every declared policy, the split that the paper replaces and, unless quick, hand-tuned caps."""
    split = scheduling_policy("static_together")
    return [
        *(Contender(name=policy.name, make=policy.make) for policy in ALL),
        Contender(name=f"{split.name}_synchronised_tools", make=split.make, synchronised_tools=True),
        *(Contender(name=f"cap_{cap}", make=_capped(cap)) for cap in (() if quick else CAPS)),
    ]


def _capped(cap: int) -> Callable[[Sequence[int]], Policy]:
    return lambda capacities: FixedCapPolicy(len(capacities), cap=cap)


def study(quick: bool = False) -> dict[str, Any]:
    """Simulate every contender on five seeds; `quick` has 8 engines and no caps (under 30 s on one core), else 64.

    Returns a JSON record: `runs` (one per workload, seed and policy), and `summary`, one per workload and policy: the
    ratio of its simulated makespan to that of the forecast policy, mean over seeds with a paired 95% bootstrap
    interval, and the same against the lower bound.
    """
    num_engines, seeds, compared = 8 if quick else 64, (1, 2, 3, 4, 5), contenders(quick=quick)
    runs: list[dict[str, Any]] = []
    bounds: dict[tuple[str, int], float] = {}
    for lengths in LENGTHS:
        for seed in seeds:
            cluster = Cluster(num_engines=num_engines)
            workload = draw(lengths, seed=seed, num_engines=num_engines)
            bounds[lengths.name, seed] = lower_bound_s(workload, cluster)
            runs += [_run(contender, workload, seed, cluster) for contender in compared]
    return {
        "simulated": True,
        "validated_on_hardware": False,
        "num_engines": num_engines,
        "seeds": list(seeds),
        "workloads": [
            {
                "name": lengths.name,
                "synthetic": True,
                "max_response": lengths.max_response,
                "simulated_lower_bound_s": [bounds[lengths.name, seed] for seed in seeds],
                "best_cap": None if quick else _best_cap(runs, lengths.name),
            }
            for lengths in LENGTHS
        ],
        "runs": runs,
        "summary": [
            _summary(runs, bounds, lengths.name, contender.name, seeds)
            for lengths in LENGTHS
            for contender in compared
        ],
    }


def draw(lengths: Lengths, *, seed: int, num_engines: int) -> Workload:
    """The study's batch: 256 rollouts per engine, as 512 x 32 on 64 engines in the paper."""
    return synthetic(
        lengths.name,
        seed=seed,
        num_prompts=_PROMPTS_PER_ENGINE * num_engines,
        group_size=_GROUP_SIZE,
        median_response=lengths.median_response,
        max_response=lengths.max_response,
    )


def _run(contender: Contender, workload: Workload, seed: int, cluster: Cluster) -> dict[str, Any]:
    if contender.synchronised_tools:
        cluster = Cluster(num_engines=cluster.num_engines, synchronised_tools=True)
    capacities = [cluster.capacity_tokens] * cluster.num_engines
    outcome = simulate(workload, contender.make(capacities), cluster)
    return {"workload": workload.name, "seed": seed, "policy": contender.name, **outcome.to_json()}


def _makespans(runs: Sequence[Mapping[str, Any]], workload: str, policy: str) -> list[float]:
    return [
        run["simulated_makespan_s"] for run in runs if run["workload"] == workload and run["policy"] == policy
    ]


def _best_cap(runs: Sequence[Mapping[str, Any]], workload: str) -> int:
    """The cap with the shortest total simulated makespan, tuned on the seeds that it is measured on."""
    return min(CAPS, key=lambda cap: sum(_makespans(runs, workload, f"cap_{cap}")))


def _summary(
    runs: Sequence[Mapping[str, Any]],
    bounds: Mapping[tuple[str, int], float],
    workload: str,
    policy: str,
    seeds: Sequence[int],
) -> dict[str, Any]:
    makespans, reference = _makespans(runs, workload, policy), _makespans(runs, workload, FORECAST)
    ratios = [one / forecast for one, forecast in zip(makespans, reference, strict=True)]
    over_bound = [one / bounds[workload, seed] for one, seed in zip(makespans, seeds, strict=True)]
    low, high = bootstrap_interval(ratios)
    return {
        "workload": workload,
        "policy": policy,
        "simulated_makespan_s": sum(makespans) / len(makespans),
        "simulated_makespan_over_ours": sum(ratios) / len(ratios),
        "low": low,
        "high": high,
        "simulated_makespan_over_bound": sum(over_bound) / len(over_bound),
    }


def bootstrap_interval(values: Sequence[float], *, num_resamples: int = 2000) -> tuple[float, float]:
    """Percentile interval (95%) of the mean; for one value, that value twice.

    >>> bootstrap_interval([2.0])
    (2.0, 2.0)
    """
    rng = Random(0)
    means = sorted(sum(rng.choices(values, k=len(values))) / len(values) for _ in range(num_resamples))
    return means[int(0.025 * num_resamples)], means[int(0.975 * num_resamples)]


def to_markdown(record: Mapping[str, Any]) -> str:
    """The summary as a table with the word simulated in its heading."""
    lines = [
        "| workload | policy | simulated makespan, s | simulated / forecast [95%] | simulated / bound |",
        "|---|---|---|---|---|",
    ]
    lines += [
        f"| {row['workload']} | {row['policy']} | {row['simulated_makespan_s']:.0f} "
        f"| {row['simulated_makespan_over_ours']:.3f} [{row['low']:.3f}, {row['high']:.3f}] "
        f"| {row['simulated_makespan_over_bound']:.2f} |"
        for row in record["summary"]
    ]
    return "\n".join(lines)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    quick: Annotated[bool, typer.Option("--quick", help="At most half a minute.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    run: RunOption = None,
) -> None:
    """Run the scheduler study: every policy on the same workloads in the simulator. All numbers are simulated."""
    with one_line_errors():
        began = time.monotonic()
        record = study(quick=quick)
        if run is not None:
            publish(run, "scheduler", record, time.monotonic() - began)
        typer.echo(json.dumps(record) if as_json else to_markdown(record))


if __name__ == "__main__":
    app(prog_name="python -m trainer schedule")
