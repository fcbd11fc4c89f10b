"""`Watch`: enforces the time limits of running calls, and lowers the priority of long ones.

Both times, CPU and wall, count from where the child is isolated and its code begins. On a loaded machine a child may
wait for seconds before that, which the code did not cause. Until then it also keeps its priority.
"""

from __future__ import annotations

import heapq
import itertools
import math
import os
import time

from sandbox.child.fork_server import IDLE_CLASS, Op
from sandbox.server.supervisor_state import Run
from sandbox.settings import Settings

GRACE_S = 0.2
"""Seconds between the exception that announces a limit and the kill."""
DECAY_AFTER_S = 0.1
IDLE_AFTER_S = 0.5
"""Seconds after which a stateless call runs in the idle class: an endless loop at niceness 19 still takes a share."""
SET_UP_WITHIN_S = 60.0
"""Seconds after which a child that is not set up is killed; its call starts again."""
HUNG_AFTER_S = 60.0
"""Seconds after its wall limit at which a call that has not ended marks its fork server as hung."""
LOOK_FOR_SET_UP_S = 0.05
"""Seconds between checks of a child that is not set up: a late check keeps a loop's priority, and its end, late."""
LOOK_EVERY_S = 0.25
LOOK_AT_MOST_EVERY_S = 0.02
"""Seconds between checks at least, even of a child that sleeps just below its limit."""
_NUM_CORES = os.cpu_count() or 1
"""Cores: no child uses more CPU seconds than wall seconds times this number."""


class Watch:
    """One timer per running call, the earliest requested: a second one would fire forever and request its own.

    The fork server reads CPU time: only there is a pid certain to be its child.
    """

    def __init__(self, settings: Settings) -> None:
        self._decayed_niceness = min(19, os.getpriority(os.PRIO_PROCESS, 0) + settings.decayed_niceness)
        self._decays = settings.decayed_niceness > settings.niceness
        self._timers: list[tuple[float, int, Run]] = []
        self._order = itertools.count()

    def start(self, run: Run, now: float) -> None:
        """Begin to watch a call."""
        self._schedule(run, now + min(DECAY_AFTER_S, run.pending.limits.wall_s))

    def next_t(self) -> float | None:
        """Return when to call `act` at the latest, ignoring ended runs and moved timers."""
        while self._timers and not self._is_alive(self._timers[0]):
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    def act(self, now: float) -> None:
        """Act on every timer that is due."""
        while (at := self.next_t()) is not None and at <= now:
            run = heapq.heappop(self._timers)[2]
            run.due_t = math.inf
            self._act_on(run, now)

    @staticmethod
    def _is_alive(timer: tuple[float, int, Run]) -> bool:
        at, _, run = timer
        return not run.is_over and at == run.due_t

    def on_used(self, run: Run, used_s: float) -> None:
        """Use a measurement of a fork server: check again at the earliest time at which the limit can be reached."""
        left_s = run.base_cpu_s + run.pending.limits.cpu_s + GRACE_S - used_s
        if left_s <= 0.0:  # the fork server has killed it
            run.is_killed = True
            run.limit_hit = run.limit_hit or f"CPU time limit of {run.pending.limits.cpu_s:g} s reached"
        elif left_s < LOOK_EVERY_S:
            self._schedule(run, time.monotonic() + max(left_s, LOOK_AT_MOST_EVERY_S))

    def _schedule(self, run: Run, at: float) -> None:
        if at < run.due_t:
            run.due_t = at
            heapq.heappush(self._timers, (at, next(self._order), run))

    def _act_on(self, run: Run, now: float) -> None:
        if run.begun_t is None and run.is_set_up():
            run.begun_t = max(run.start_t, now - LOOK_FOR_SET_UP_S)  # the last check came before the set-up
        if run.begun_t is None and run.verdict is None:
            self._await_set_up(run, now)
            return
        limits = run.pending.limits
        begun_t = run.start_t if run.begun_t is None else run.begun_t
        ran_s = now - begun_t
        if run.verdict is not None or (run.is_announced and ran_s >= limits.wall_s + GRACE_S):
            run.is_killed = True
            if now >= begun_t + limits.wall_s + HUNG_AFTER_S:
                run.server.process.kill()  # it is stopped or stuck: its death ends its calls as lost
            run.server.ask(Op.KILL, run.seat)
            self._schedule(run, now + 1.0)
        elif ran_s >= limits.wall_s and not run.is_announced:
            run.is_announced = True
            run.limit_hit = f"wall time limit of {limits.wall_s:g} s reached"
            run.server.ask(Op.ANNOUNCE, run.seat)
            self._schedule(run, now + GRACE_S)
        else:
            self._look_at(run, begun_t, now)

    def _look_at(self, run: Run, begun_t: float, now: float) -> None:
        """Lower the priority of a long run, and have its CPU time read once it can be at its limit."""
        limits, ran_s = run.pending.limits, now - begun_t
        if ran_s >= DECAY_AFTER_S and not run.is_decayed and self._decays:
            run.is_decayed = True
            run.server.ask(Op.RENICE, run.seat, cpu_s=self._decayed_niceness)
        if ran_s >= IDLE_AFTER_S and not run.is_idle and self._decays and run.pending.session is None:
            run.is_idle = True
            run.server.ask(Op.RENICE, run.seat, cpu_s=IDLE_CLASS)
        cpu_limit_s = limits.cpu_s + GRACE_S
        ahead = [after_s for after_s in (DECAY_AFTER_S, IDLE_AFTER_S) if after_s > ran_s and self._decays]
        next_s = min([ran_s + LOOK_EVERY_S, *ahead])  # a loop at full priority costs other calls most
        if ran_s >= cpu_limit_s / _NUM_CORES:
            run.server.ask(Op.CHECK, run.seat, cpu_s=run.base_cpu_s + cpu_limit_s)
        elif run.is_idle:
            next_s = max(next_s, cpu_limit_s / _NUM_CORES)
        due = begun_t + min(limits.wall_s, next_s) if not run.is_announced else now + GRACE_S
        self._schedule(run, max(due, now + 0.005))

    def _await_set_up(self, run: Run, now: float) -> None:
        late_s = now - run.start_t - SET_UP_WITHIN_S
        if late_s < 0.0:
            self._schedule(run, now + min(LOOK_FOR_SET_UP_S, -late_s))
            return
        run.is_given_up = run.is_killed = True
        if late_s >= HUNG_AFTER_S:
            run.server.process.kill()
        run.server.ask(Op.KILL, run.seat)
        self._schedule(run, now + 1.0)
