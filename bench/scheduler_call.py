"""CPU time of one call of the forecast policy with 512 engines, in a simulated batch.

The calls that return assignments cost more than the others; the mean over all calls counts, as in a live run.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any

import typer

from bench.schedule import FORECAST, LENGTHS
from trainer.engines.requests import EngineReport
from trainer.scheduling.policies import scheduling_policy
from trainer.scheduling.policy import Arrival, Assignment, Policy
from trainer.scheduling.simulation.simulate import Cluster, simulate
from trainer.scheduling.simulation.workload import synthetic

_ROLLOUTS_PER_ENGINE = 64
_GROUP_SIZE = 32


@dataclass(slots=True)
class Timed:
    """Implements `Policy`: passes calls on and adds up their CPU time."""

    policy: Policy
    times_ns: list[int] = field(default_factory=list)

    def on_arrive(self, arrival: Arrival, t: float) -> list[Assignment]:
        return self._timed(lambda: self.policy.on_arrive(arrival, t))

    def on_report(self, report: EngineReport) -> list[Assignment]:
        return self._timed(lambda: self.policy.on_report(report))

    def on_turn_end(self, session: str, t: float, context_tokens: int | None = None) -> list[Assignment]:
        return self._timed(lambda: self.policy.on_turn_end(session, t, context_tokens))

    def on_engine_lost(self, engine: int, t: float) -> None:
        self.policy.on_engine_lost(engine, t)

    def on_engine_back(self, engine: int, t: float) -> list[Assignment]:
        return self._timed(lambda: self.policy.on_engine_back(engine, t))

    def on_finish(self, session: str, t: float, context_tokens: int | None = None) -> list[Assignment]:
        return self._timed(lambda: self.policy.on_finish(session, t, context_tokens))

    def _timed(self, call: Callable[[], list[Assignment]]) -> list[Assignment]:
        began = time.thread_time_ns()
        made = call()
        self.times_ns.append(time.thread_time_ns() - began)
        return made


def bench(num_engines: int) -> dict[str, Any]:
    """Simulate one batch and return the microseconds of a call: mean, median and the slowest hundredth."""
    workload = synthetic(
        LENGTHS[0].name,
        seed=1,
        num_prompts=num_engines * _ROLLOUTS_PER_ENGINE // _GROUP_SIZE,
        group_size=_GROUP_SIZE,
        median_response=LENGTHS[0].median_response,
        max_response=LENGTHS[0].max_response,
    )
    cluster = Cluster(num_engines=num_engines)
    policy = Timed(scheduling_policy(FORECAST).make([cluster.capacity_tokens] * num_engines))
    simulate(workload, policy, cluster)
    times = sorted(policy.times_ns)
    return {
        "num_engines": num_engines,
        "num_calls": len(times),
        "mean_us": sum(times) / len(times) / 1e3,
        "median_us": times[len(times) // 2] / 1e3,
        "p99_us": times[len(times) * 99 // 100] / 1e3,
    }


def main(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on one line.")] = False,
    engines: Annotated[int, typer.Option(help="Simulated engines.", min=1)] = 512,
) -> None:
    """CPU microseconds of one call of the forecast policy."""
    typer.echo(json.dumps(bench(engines), indent=None if as_json else 1))


if __name__ == "__main__":
    typer.run(main)
