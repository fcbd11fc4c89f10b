"""`ForecastPolicy`: starts a rollout on an engine whose cache is not expected to overflow while it runs.

A worst-case reserve leaves most of a cache empty, because most rollouts end long before the limit; a fixed cap
requires tuning for each limit. This policy forecasts each engine's future cache use from its rows: row i at response
length a still runs h tokens later with probability S(a + h) / S(a), and then holds prompt + a + h tokens. S is learned
in the same batch (`survival`). A rollout is admitted if mean + one standard deviation of the forecast stays within the
capacity at every h. The engine's preemption handles the remaining overflows. No constant depends on the workload.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf

import numpy as np
from numpy.typing import NDArray

from trainer.engines.requests import EngineReport
from trainer.scheduling.admission_queue import AdmissionQueue
from trainer.scheduling.policy import LOST, Arrival, Assignment, SchedulingPolicy
from trainer.scheduling.running_rows import RunningRow, RunningRows
from trainer.scheduling.survival import NUM_BINS, SurvivalCurve

_DEVIATIONS = 1.0
"""Standard deviations of the forecast that must also fit."""
_MOVE_SHARE = 0.1
"""A returning rollout moves if its engine holds this share of the capacity more than the lightest one."""
_REFIT_SHARE = 0.02
"""Refit the curve after the number of ended rollouts has grown by this share."""


@dataclass(slots=True)
class _EngineState:
    capacity: int
    seen_tokens: int = 0
    """Sum of `context` over the rows."""
    num_decoding: int = 0
    seen_t: float = 0.0
    """Sum of `t` over decoding rows."""
    tokens_per_s: float = 0.0
    """Tokens that each running row gains per second of the clock."""
    mean_H: NDArray[np.float64] = field(default_factory=lambda: np.zeros(NUM_BINS))
    variance_H: NDArray[np.float64] = field(default_factory=lambda: np.zeros(NUM_BINS))
    forecast_t: float = 0.0
    has_waiting: bool = False
    """True if turns wait on the engine in its last report; it gets nothing new then."""
    lost: bool = False
    slack: float = 0.0
    """Capacity minus the maximum of the forecast; the engine with the largest slack takes the next rollout."""


class ForecastPolicy:
    """First come, first served, to the engine with the largest forecast slack.

    A rollout stays with its cache while others wait. Once none waits, a rollout that returns from its tool may move
    to a much lighter engine. Requires `on_report`: without reports it underestimates the length of rows, and
    admits less.

    Args:
        capacities: cached tokens that each engine can hold.
    """

    def __init__(self, capacities: Sequence[int]) -> None:
        if not capacities or min(capacities) < 1:
            raise ValueError(
                f"capacities {list(capacities)}: need at least one engine, each of 1 token or more"
            )
        self._engines = [_EngineState(capacity=capacity, slack=float(capacity)) for capacity in capacities]
        # Entries are (-slack, engine); an entry that disagrees with the engine's slack is stale and skipped.
        self._most_slack = [(-state.slack, number) for number, state in enumerate(self._engines)]
        heapq.heapify(self._most_slack)
        self._rows = RunningRows(len(self._engines))
        self._largest = max(capacities)
        self._used = np.zeros(len(self._engines), dtype=np.int64)
        """Cached tokens of each engine in its last report."""
        self._queue = AdmissionQueue()
        self._engine_of: dict[str, int] = {}
        self._curve: SurvivalCurve | None = None
        self._ahead_H = self._alive_H = self._spread_H = np.zeros(NUM_BINS)
        """Tokens at each horizon; the probability that a rollout reaches them, and the variance of that event."""
        self._ended: list[int] = []
        self._next_refit = 8

    def on_arrive(self, arrival: Arrival, t: float) -> list[Assignment]:
        number = self._engine_of.get(arrival.session)
        if number is not None:
            row = self._rows[arrival.session]
            if not self._queue:
                number = self._lighter(number, arrival.context_tokens)
                self._remove(self._engine_of[arrival.session], arrival.session)
                self._engine_of[arrival.session] = number
            self._place(
                number, arrival.session, RunningRow(prompt=row.prompt, context=arrival.context_tokens, t=t)
            )
            return [Assignment(session=arrival.session, engine=number)]
        worst = arrival.context_tokens + arrival.max_new
        if worst > self._largest:
            raise ValueError(
                f"rollout {arrival.session!r} may need {worst} cached tokens, the largest engine holds "
                f"{self._largest}: lower the response budget or raise rollout.kv_tokens"
            )
        if self._curve is None or arrival.max_new > self._curve.limit:
            self._curve = SurvivalCurve(arrival.max_new)
            self._ahead_H = np.arange(NUM_BINS) * (arrival.max_new / NUM_BINS)
            self._read_curve(self._curve)
        self._queue.push(arrival)
        return self._assign(t)

    def on_report(self, report: EngineReport) -> list[Assignment]:
        """Derive the engine's pace from its cached tokens: those beyond the lengths seen last."""
        state = self._engines[report.engine]
        waited, state.has_waiting = state.has_waiting, report.waiting > 0
        used = report.capacity_tokens - report.free_kv_tokens
        self._used[report.engine] = used
        decoding_s = state.num_decoding * report.t - state.seen_t
        if decoding_s > 0:
            state.tokens_per_s = max(0.0, (used - state.seen_tokens) / decoding_s)
        if not self._queue or not (waited or state.has_waiting):
            return []
        self._forecast(report.engine, report.t)
        return self._assign(report.t)

    def on_turn_end(self, session: str, t: float, context_tokens: int | None = None) -> list[Assignment]:
        """Keep the row: its cache stays on the engine."""
        number = self._engine_of.get(session)
        if number is None:  # the engine was lost in this cycle
            return []
        row = self._rows[session]
        context = row.context if context_tokens is None else context_tokens
        self._place(number, session, RunningRow(prompt=row.prompt, context=context, t=t, decoding=False))
        return []

    def on_engine_lost(self, engine: int, t: float) -> None:
        """Drop the engine's rows; it has no slack from then on."""
        for session in [session for session, number in self._engine_of.items() if number == engine]:
            self._remove(engine, session)
            del self._engine_of[session]
        self._engines[engine].lost = True
        self._used[engine] = LOST
        self._set_slack(engine)

    def on_engine_back(self, engine: int, t: float) -> list[Assignment]:
        """Forecast the empty engine and admit what fits."""
        state = self._engines[engine]
        state.lost = state.has_waiting = False
        self._used[engine] = 0
        if self._curve is None:
            self._set_slack(engine)
        else:
            self._forecast(engine, t)
        return self._assign(t)

    def on_finish(self, session: str, t: float, context_tokens: int | None = None) -> list[Assignment]:
        """Learn the length, update the engine's forecast, admit what fits."""
        number = self._engine_of.pop(session, None)
        if number is None:
            self._queue.discard(session)
            return self._assign(t)
        row = self._remove(number, session)
        assert row is not None
        self._ended.append((row.context if context_tokens is None else context_tokens) - row.prompt)
        if len(self._ended) >= self._next_refit:
            self._refit(t)
        if not self._queue:
            return []
        self._forecast(number, t)
        return self._assign(t)

    # --- internals ---------------------------------------------------------------------------------------

    def _lighter(self, number: int, context: int) -> int:
        """Engine on which a returning turn gains more by faster decoding than the new prefill costs.

        Applies only with an empty queue: engines then drain unevenly, and the last ones decide when the batch ends.
        """
        target = int(self._used.argmin())
        more = int(self._used[number] - self._used[target])
        if more <= context + _MOVE_SHARE * self._engines[number].capacity:
            return number
        self._used[number] -= context
        self._used[target] += context
        return target

    def _place(self, number: int, session: str, row: RunningRow) -> None:
        """Put a row, with its exact length, on an engine; it replaces the row of the same session."""
        state = self._engines[number]
        self._remove(number, session)
        self._rows.put(number, session, row)
        state.seen_tokens += row.context
        state.num_decoding += row.decoding
        state.seen_t += row.t * row.decoding

    def _remove(self, number: int, session: str) -> RunningRow | None:
        row = self._rows.pop(number, session)
        if row is not None:
            state = self._engines[number]
            state.seen_tokens -= row.context
            state.num_decoding -= row.decoding
            state.seen_t -= row.t * row.decoding
        return row

    def _refit(self, t: float) -> None:
        if self._curve is None:
            return
        # Current response lengths, estimated from the last events and the pace.
        running = self._rows.all_responses(
            pace_E=[state.tokens_per_s for state in self._engines], t=t, limit=self._curve.limit
        )
        self._curve.refit(ended=self._ended, running=running)
        self._read_curve(self._curve)
        self._next_refit = len(self._ended) + max(8, int(_REFIT_SHARE * len(self._ended)))

    def _read_curve(self, curve: SurvivalCurve) -> None:
        self._alive_H = curve.at(self._ahead_H)
        self._spread_H = self._alive_H * (1 - self._alive_H)

    def _forecast(self, number: int, t: float) -> None:
        """Mean and variance of the engine's cached tokens at each horizon, over its rows."""
        state = self._engines[number]
        state.forecast_t = t
        assert self._curve is not None
        if self._rows.num_rows(number):
            response_N = self._rows.responses(number, pace=state.tokens_per_s, t=t, limit=self._curve.limit)
            prompt_N = self._rows.prompts(number)
            held_NH = response_N[:, None] + self._ahead_H
            now_N = np.maximum(self._curve.at(response_N), 1e-9)
            # In place from here on: a scheduler spends most of its time in these arrays.
            alive_NH = self._curve.at(held_NH)
            alive_NH /= now_N[:, None]
            np.minimum(alive_NH, 1.0, out=alive_NH)
            alive_NH[:, 0] = 1.0
            held_NH += prompt_N[:, None]
            state.mean_H = (alive_NH * held_NH).sum(0)
            variance_NH = 1 - alive_NH
            variance_NH *= alive_NH
            variance_NH *= np.square(held_NH, out=held_NH)
            state.variance_H = variance_NH.sum(0)
        else:
            state.mean_H, state.variance_H = np.zeros(NUM_BINS), np.zeros(NUM_BINS)
        self._set_slack(number)

    def _set_slack(self, number: int) -> None:
        state = self._engines[number]
        need = state.mean_H + _DEVIATIONS * np.sqrt(state.variance_H)
        takes_nothing = state.lost or (state.has_waiting and self._rows.num_rows(number))
        state.slack = -inf if takes_nothing else state.capacity - float(need.max())
        heapq.heappush(self._most_slack, (-state.slack, number))

    def _assign(self, t: float) -> list[Assignment]:
        assignments = []
        while self._queue:
            arrival = self._queue.head()
            number = self._slackest()
            if self._engines[number].forecast_t < t:
                self._forecast(number, t)
                continue
            if not self._admits(number, arrival):
                break
            self._queue.pop()
            self._start(number, arrival, t)
            assignments.append(Assignment(session=arrival.session, engine=number))
        return assignments

    def _slackest(self) -> int:
        while True:
            negative, number = self._most_slack[0]
            if -negative == self._engines[number].slack:
                return number
            heapq.heappop(self._most_slack)

    def _with(self, state: _EngineState, arrival: Arrival) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Mean and variance of an engine's cached tokens, with the arrival added to its rows."""
        held_H = arrival.context_tokens + self._ahead_H
        mean_H = state.mean_H + self._alive_H * held_H
        return mean_H, state.variance_H + self._spread_H * np.square(held_H)

    def _admits(self, number: int, arrival: Arrival) -> bool:
        """Report whether the arrival fits. An empty engine always admits one rollout, so none waits permanently."""
        state = self._engines[number]
        if state.lost:
            return False
        if not self._rows.num_rows(number):
            return arrival.context_tokens + arrival.max_new <= state.capacity
        if state.has_waiting:
            return False
        mean_H, variance_H = self._with(state, arrival)
        need = mean_H + _DEVIATIONS * np.sqrt(variance_H)
        return float(need.max()) <= state.capacity

    def _start(self, number: int, arrival: Arrival, t: float) -> None:
        state = self._engines[number]
        state.mean_H, state.variance_H = self._with(state, arrival)
        context = arrival.context_tokens
        self._place(number, arrival.session, RunningRow(prompt=context, context=context, t=t))
        self._engine_of[arrival.session] = number
        self._set_slack(number)


POLICY = SchedulingPolicy(name="forecast", make=ForecastPolicy)
