"""`simulate`: discrete-event simulation of one rollout batch on many engines. All its numbers are simulated.

The policy is the class that live runs use, with the same calls and records; engines, tools and the clock are models.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field

from trainer.scheduling.policy import Arrival, Assignment, Policy
from trainer.scheduling.simulation.clock import SimulatedClock
from trainer.scheduling.simulation.simulated_engine import SimulatedEngine, StepCost
from trainer.scheduling.simulation.workload import RolloutWork, Workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Cluster:
    """The simulated machines. Defaults: 64 engines with the cache of an H200 that holds a 14.8B model."""

    num_engines: int = 64
    capacity_tokens: int = 507_000
    cost: StepCost = field(default_factory=StepCost)
    tool_workers: int = 4096
    """Tool calls that run at once; the others wait."""
    synchronised_tools: bool = False
    """Tools start only when no engine has a turn left, and turns only when no tool runs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result of one simulated batch."""

    simulated_makespan_s: float
    simulated_sampled_tokens_per_s: float
    simulated_mean_batch: float
    """Rows per step."""
    simulated_kv_use_frac: float
    """Cached share of all engines' capacity, mean over the makespan."""
    simulated_kv_peak_frac: float
    simulated_busy_frac: float
    num_rollouts: int
    num_sampled: int
    num_preemptions: int
    num_prefilled: int
    num_recomputed: int

    def to_json(self) -> dict[str, float]:
        return asdict(self)


@dataclass(slots=True)
class _Progress:
    work: RolloutWork
    turn: int
    context: int
    engine: int = -1


class Simulation:
    """One batch under one policy; call `run` once."""

    def __init__(self, workload: Workload, policy: Policy, cluster: Cluster) -> None:
        self.clock = SimulatedClock()
        self.engines = [
            SimulatedEngine(
                engine=engine, capacity_tokens=cluster.capacity_tokens, cost=cluster.cost, clock=self.clock
            )
            for engine in range(cluster.num_engines)
        ]
        self._workload, self._policy, self._cluster = workload, policy, cluster
        self._progress = {work.session: _Progress(work, 0, work.prompt_tokens) for work in workload.rollouts}
        self._events: list[tuple[float, int, int, str]] = []
        """(time, order, engine or -1, session that returns from its tool); only an engine's newest event is valid."""
        self._num_events = 0
        self._newest = [-1] * cluster.num_engines
        self._touched: set[int] = set()
        self._tool_free_s = [0.0] * cluster.tool_workers
        self._held: deque[str] = deque()
        """Sessions that wait at the barrier of synchronised tools."""
        self._num_decoding = 0
        self._num_in_tools = 0
        self.num_ended = 0

    def run(self) -> Outcome:
        """Simulate until the last rollout ends. Raises RuntimeError if the policy leaves a rollout unassigned."""
        for work in self._workload.rollouts:
            self._arrive(work.session)
        for engine in self.engines:
            self._submit(self._policy.on_report(engine.report()))
        self._schedule_touched()
        while self._events:
            t, order, engine, session = heapq.heappop(self._events)
            if engine < 0:
                self.clock.move_to(t)
                self._come_back(session)
            elif self._newest[engine] == order:
                self.clock.move_to(t)
                self._advance(engine)
            self._schedule_touched()
        if self.num_ended < len(self._progress):
            raise RuntimeError(
                f"{len(self._progress) - self.num_ended} of {len(self._progress)} rollouts were never assigned"
            )
        return self._outcome()

    def _arrive(self, session: str) -> None:
        progress = self._progress[session]
        response = progress.context - progress.work.prompt_tokens
        arrival = Arrival(
            session=session,
            group=progress.work.group,
            context_tokens=progress.context,
            max_new=self._workload.max_response - response,
        )
        self._submit(self._policy.on_arrive(arrival, self.clock()))

    def _submit(self, assignments: Sequence[Assignment]) -> None:
        for one in assignments:
            progress = self._progress[one.session]
            if progress.engine not in (-1, one.engine):
                self.engines[progress.engine].release(one.session)
                self._touched.add(progress.engine)
            progress.engine = one.engine
            num_new = progress.work.turns[progress.turn].num_sampled
            self.engines[one.engine].submit(one.session, progress.context, num_new)
            self._num_decoding += 1
            self._touched.add(one.engine)

    def _advance(self, number: int) -> None:
        engine = self.engines[number]
        self._touched.add(number)
        for session, context in engine.advance():
            self._num_decoding -= 1
            progress = self._progress[session]
            progress.context = context
            if progress.turn + 1 == len(progress.work.turns):
                engine.release(session)
                self.num_ended += 1
                self._submit(self._policy.on_finish(session, self.clock(), context))
            else:
                self._held.append(session)
                self._submit(self._policy.on_turn_end(session, self.clock(), context))
        self._submit(self._policy.on_report(engine.report()))
        if not (self._cluster.synchronised_tools and self._num_decoding):
            self._start_tools()

    def _start_tools(self) -> None:
        barrier = self.clock()
        returns = []
        while self._held:
            session = self._held.popleft()
            turn = self._progress[session].work.turns[self._progress[session].turn]
            start = max(self.clock(), heapq.heappop(self._tool_free_s))
            heapq.heappush(self._tool_free_s, start + turn.tool_s)
            returns.append((start + turn.tool_s, session))
            barrier = max(barrier, start + turn.tool_s)
        for t, session in returns:
            self._push(barrier if self._cluster.synchronised_tools else t, -1, session)

    def _come_back(self, session: str) -> None:
        progress = self._progress[session]
        progress.context += progress.work.turns[progress.turn].tool_tokens
        progress.turn += 1
        self._arrive(session)

    def _push(self, t: float, engine: int, session: str) -> int:
        self._num_events += 1
        heapq.heappush(self._events, (t, self._num_events, engine, session))
        return self._num_events

    def _schedule_touched(self) -> None:
        for number in sorted(self._touched):
            t = self.engines[number].next_event_s()
            self._newest[number] = -1 if t is None else self._push(max(t, self.clock()), number, "")
        self._touched.clear()

    def _outcome(self) -> Outcome:
        makespan = self.clock()
        totals = [engine.totals for engine in self.engines]
        capacity, count = self._cluster.capacity_tokens, len(totals)
        num_sampled = sum(one.num_sampled for one in totals)
        return Outcome(
            simulated_makespan_s=makespan,
            simulated_sampled_tokens_per_s=num_sampled / makespan,
            simulated_mean_batch=num_sampled / max(1, sum(one.num_steps for one in totals)),
            simulated_kv_use_frac=sum(one.cached_token_seconds for one in totals)
            / (makespan * capacity * count),
            simulated_kv_peak_frac=max(one.peak_cached for one in totals) / capacity,
            simulated_busy_frac=sum(one.busy_s for one in totals) / (makespan * count),
            num_rollouts=self.num_ended,
            num_sampled=num_sampled,
            num_preemptions=sum(one.num_preemptions for one in totals),
            num_prefilled=sum(one.num_prefilled for one in totals),
            num_recomputed=sum(one.num_recomputed for one in totals),
        )


def simulate(workload: Workload, policy: Policy, cluster: Cluster) -> Outcome:
    """Run one batch under one policy."""
    return Simulation(workload, policy, cluster).run()


def lower_bound_s(workload: Workload, cluster: Cluster) -> float:
    """Simulated seconds that no policy can undercut: an even spread of the work, or the longest rollout alone.

    Each sampled token reads its context once. A step caches at most `capacity_tokens`, so there are at least
    (tokens read / capacity) engine steps, each at least as long as a step of one row.
    """
    cost = cluster.cost
    read = 0
    longest = 0.0
    for work in workload.rollouts:
        context, alone = work.prompt_tokens, 0.0
        for turn in work.turns:
            n = turn.num_sampled
            turn_read = n * context + n * (n + 1) // 2
            read += turn_read
            alone += n * cost.base_s(1) + turn_read * cost.cached_token_s + turn.tool_s
            context += n + turn.tool_tokens
        longest = max(longest, alone)
    steps = read / cluster.capacity_tokens
    even = (steps * cost.base_s(1) + read * cost.cached_token_s) / cluster.num_engines
    return max(even, longest)
