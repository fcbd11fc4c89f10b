"""`SimulatedEngine`: one engine with continuous batching and a paged cache, advanced from event to event.

Every running row gains one token per step, and the time of a step is linear in the cached tokens. The time of k steps
is therefore a closed form until a turn ends, a turn arrives, or the cache is full. With a full cache the engine drops
the oldest parked contexts, then preempts the last admitted row, which is recomputed later at full cost, and admits
nothing in that step (as vLLM).

Not modelled: prompts shared by siblings, block rounding, prefill mixed into decode steps.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, sqrt

from trainer.engines.requests import EngineReport


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCost:
    """Seconds of engine work, a roofline without a fit to hardware. Defaults: a 14.8B model on an H200, bf16."""

    overhead_s: float = 3e-3
    """Host work per step."""
    weights_s: float = 29.5e9 / 4.8e12
    """Time to read the weights once."""
    row_s: float = 2 * 14.8e9 / (0.5 * 989e12)
    """Matrix products of one row; hidden by the read of the weights until the batch is large."""
    cached_token_s: float = 160 * 1024 / 4.8e12
    """Time to read one cached token's keys and values."""
    prefill_token_s: float = 2 * 14.8e9 / (0.5 * 989e12)

    def base_s(self, num_running: int) -> float:
        """Time of a step of `num_running` rows without their caches."""
        return self.overhead_s + max(self.weights_s, num_running * self.row_s)


@dataclass(slots=True)
class _Row:
    session: str
    context: int
    """Tokens at admission."""
    first_step: int
    last_step: int


@dataclass(frozen=True, slots=True)
class _Waiting:
    session: str
    context: int
    num_new: int


@dataclass(slots=True)
class EngineTotals:
    """Counters of one engine for the study."""

    busy_s: float = 0.0
    num_steps: int = 0
    num_sampled: int = 0
    num_prefilled: int = 0
    num_recomputed: int = 0
    """Prefilled tokens that had been cached before."""
    num_preemptions: int = 0
    cached_token_seconds: float = 0.0
    peak_cached: int = 0


class SimulatedEngine:
    """Counterpart of `LocalEngine` in simulated time; the loop calls `advance` at each `next_event_s`."""

    def __init__(
        self, *, engine: int, capacity_tokens: int, cost: StepCost, clock: Callable[[], float]
    ) -> None:
        self.totals = EngineTotals()
        self._engine, self._capacity, self._cost, self._clock = engine, capacity_tokens, cost, clock
        self._t = 0.0
        """End of the last step."""
        self._step = 0
        self._rows: dict[str, _Row] = {}
        self._ends: list[tuple[int, int, _Row]] = []
        self._num_admitted = 0
        self._running_tokens = 0
        self._parked: OrderedDict[str, int] = OrderedDict()
        self._parked_tokens = 0
        self._waiting: deque[_Waiting] = deque()
        self._prefill_s = 0.0
        self._seen: set[str] = set()

    def submit(self, session: str, context: int, num_new: int) -> None:
        """Queue a turn at the clock's time; it starts at the next step boundary at the earliest."""
        if context + num_new > self._capacity:
            raise ValueError(f"{session}: {context + num_new} tokens exceed the capacity {self._capacity}")
        self._walk(self._clock())
        self._waiting.append(_Waiting(session, context, num_new))

    def release(self, session: str) -> None:
        """Drop a parked context."""
        self._seen.discard(session)
        self._parked_tokens -= self._parked.pop(session, 0)

    def report(self) -> EngineReport:
        return EngineReport(
            engine=self._engine,
            t=self._clock(),
            free_kv_tokens=self._capacity - self._cached,
            capacity_tokens=self._capacity,
            running=len(self._rows),
            waiting=len(self._waiting),
            preemptions=self.totals.num_preemptions,
        )

    def next_event_s(self) -> float | None:
        """Time at which the next turn ends or the cache is full without new arrivals; None while idle."""
        self._walk(self._clock())
        if self._rows and not self._steps_to_event():
            return self._t
        self._start_waiting()
        if not self._rows:
            return None
        return self._t + self._time_of(self._steps_to_event())

    def advance(self) -> list[tuple[str, int]]:
        """Advance to the clock's time, at which an event is due; return ended (session, context) in order."""
        self._walk(self._clock())
        ended = []
        while self._ends and (self._ends[0][0] <= self._step or self._stale(self._ends[0][2])):
            row = heapq.heappop(self._ends)[2]
            if self._stale(row):
                continue
            del self._rows[row.session]
            context = self._context(row)
            self._running_tokens -= context
            self._park(row.session, context)
            ended.append((row.session, context))
        return ended

    # --- internals ---------------------------------------------------------------------------------------

    @property
    def _cached(self) -> int:
        return self._running_tokens + self._parked_tokens

    def _context(self, row: _Row) -> int:
        return row.context + self._step - row.first_step

    def _stale(self, row: _Row) -> bool:
        return self._rows.get(row.session) is not row

    def _park(self, session: str, context: int) -> None:
        self._parked[session] = context
        self._parked_tokens += context

    def _steps_to_event(self) -> int:
        """Steps until a turn ends or the cache is full; 0 when a turn has ended."""
        while self._stale(self._ends[0][2]):
            heapq.heappop(self._ends)
        room = max(1, (self._capacity - self._cached) // len(self._rows))
        return min(self._ends[0][0] - self._step, room)

    def _time_of(self, steps: int) -> float:
        """Seconds of `steps` steps: the sum over i = 1..steps of base + token_s * (running + rows * i)."""
        rate = self._cost.cached_token_s
        linear = self._cost.base_s(len(self._rows)) + rate * self._running_tokens
        return self._prefill_s + steps * linear + rate * len(self._rows) * steps * (steps + 1) / 2

    def _walk(self, t: float) -> None:
        """Take whole steps until the first boundary at or after `t`, but not past an event."""
        if not self._rows:
            if not self._waiting:
                self._t = max(self._t, t)
            return
        if t <= self._t:
            return
        steps = min(self._steps_within(t - self._t), self._steps_to_event())
        if steps:
            self._take_steps(steps)

    def _steps_within(self, seconds: float) -> int:
        """Fewest steps, at least one, that take `seconds` or more, within rounding."""
        seconds -= self._prefill_s + 1e-9
        if seconds <= 0:
            return 1
        half = self._cost.cached_token_s * len(self._rows) / 2
        linear = self._cost.base_s(len(self._rows)) + self._cost.cached_token_s * self._running_tokens + half
        return max(1, ceil((sqrt(linear * linear + 4 * half * seconds) - linear) / (2 * half)))

    def _take_steps(self, steps: int) -> None:
        self._make_room()
        seconds = self._time_of(steps)
        totals, num_new = self.totals, steps * len(self._rows)
        totals.busy_s += seconds
        totals.num_steps += steps
        totals.num_sampled += num_new
        totals.cached_token_seconds += seconds * (self._cached + num_new / 2)
        self._t += seconds
        self._step += steps
        self._prefill_s = 0.0
        self._running_tokens += num_new
        totals.peak_cached = max(totals.peak_cached, self._cached)

    def _fits(self, tokens: int) -> bool:
        return self._cached + len(self._rows) + tokens <= self._capacity

    def _make_room(self) -> bool:
        """Let each running row add a token; True if a row was preempted."""
        preempted = False
        while not self._fits(0):
            if self._parked:
                self._parked_tokens -= self._parked.popitem(last=False)[1]
            else:
                self._preempt()
                preempted = True
        return preempted

    def _preempt(self) -> None:
        row = self._rows.pop(next(reversed(self._rows)))
        context = self._context(row)
        self._running_tokens -= context
        self._waiting.appendleft(_Waiting(row.session, context, row.last_step - self._step))
        self.totals.num_preemptions += 1

    def _start_waiting(self) -> None:
        """Admit what fits from the head of the queue, at a step boundary."""
        if self._rows and self._make_room():
            return
        while self._waiting:
            turn = self._waiting[0]
            own = self._parked.pop(turn.session, 0)
            self._parked_tokens -= own
            while self._parked and not self._fits(turn.context + 1):
                self._parked_tokens -= self._parked.popitem(last=False)[1]
            if not self._fits(turn.context + 1):
                if own:
                    self._park(turn.session, own)
                return
            self._waiting.popleft()
            self._admit(turn, own)

    def _admit(self, turn: _Waiting, own: int) -> None:
        row = _Row(turn.session, turn.context, self._step, self._step + turn.num_new)
        self._num_admitted += 1
        self._rows[turn.session] = row
        heapq.heappush(self._ends, (row.last_step, self._num_admitted, row))
        self._running_tokens += turn.context
        self.totals.num_prefilled += turn.context - own
        if turn.session in self._seen and not own:
            self.totals.num_recomputed += turn.context
        self._seen.add(turn.session)
        self._prefill_s += (turn.context - own) * self._cost.prefill_token_s
