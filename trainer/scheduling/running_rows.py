"""`RunningRows`: the rollouts of all engines as arrays.

A forecast over hundreds of rows then costs a few array operations. The rows of an engine keep the order of their last
placement, because the rounding of a sum depends on its order.

Suffixes: N rows, E engines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_FIRST_SLOTS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningRow:
    """One rollout on its engine, at its last event."""

    prompt: int
    context: int
    t: float
    """Time at which `context` was observed."""
    decoding: bool = True


class RunningRows:
    """Rows by engine and session, each in a slot of the arrays; a removed row frees its slot.

    >>> rows = RunningRows(num_engines=2)
    >>> rows.put(1, "a", RunningRow(prompt=10, context=15, t=0.0))
    >>> rows.put(1, "b", RunningRow(prompt=20, context=20, t=0.0, decoding=False))
    >>> _ = rows.pop(1, "a")
    >>> rows.put(1, "a", RunningRow(prompt=10, context=16, t=1.0))
    >>> rows.prompts(1).tolist(), rows.responses(1, pace=2.0, t=3.0, limit=9.0).tolist()
    ([20.0, 10.0], [0.0, 9.0])
    """

    def __init__(self, num_engines: int) -> None:
        self._rows: dict[str, RunningRow] = {}
        self._slots: list[dict[str, int]] = [{} for _ in range(num_engines)]
        self._free = list(range(_FIRST_SLOTS))
        self._engine = np.full(_FIRST_SLOTS, -1)
        """-1 for a free slot."""
        self._numbers = np.zeros((4, _FIRST_SLOTS))
        """Prompt tokens, response tokens at the last event, its time, and 1 for a row that decodes."""

    def num_rows(self, engine: int) -> int:
        return len(self._slots[engine])

    def __getitem__(self, session: str) -> RunningRow:
        return self._rows[session]

    def put(self, engine: int, session: str, row: RunningRow) -> None:
        """Place a row last on an engine. The session must not have a row."""
        if not self._free:
            self._double()
        slot = self._free.pop()
        self._rows[session], self._slots[engine][session] = row, slot
        self._engine[slot] = engine
        self._numbers[:, slot] = (row.prompt, row.context - row.prompt, row.t, row.decoding)

    def pop(self, engine: int, session: str) -> RunningRow | None:
        """Remove a row from an engine; None if it is absent."""
        slot = self._slots[engine].pop(session, None)
        if slot is None:
            return None
        self._free.append(slot)
        self._engine[slot] = -1
        return self._rows.pop(session)

    def prompts(self, engine: int) -> NDArray[np.float64]:
        """Prompt tokens of each row of an engine."""
        return self._numbers[0, self._slots_of(engine)]

    def responses(self, engine: int, *, pace: float, t: float, limit: float) -> NDArray[np.float64]:
        """Current response tokens of an engine's rows: the last observation plus `pace` per second, up to `limit`."""
        _, response_N, t_N, decoding_N = self._numbers[:, self._slots_of(engine)]
        return np.minimum(response_N + pace * (t - t_N) * decoding_N, limit)

    def all_responses(self, *, pace_E: Sequence[float], t: float, limit: float) -> NDArray[np.float64]:
        """As `responses`, for the rows of all engines, in any order."""
        used = np.flatnonzero(self._engine >= 0)
        _, response_N, t_N, decoding_N = self._numbers[:, used]
        pace_N = np.asarray(pace_E)[self._engine[used]]
        return np.minimum(response_N + pace_N * (t - t_N) * decoding_N, limit)

    def _slots_of(self, engine: int) -> NDArray[np.intp]:
        slots = self._slots[engine]
        return np.fromiter(slots.values(), np.intp, len(slots))

    def _double(self) -> None:
        count = len(self._engine)
        self._free.extend(range(count, 2 * count))
        self._engine = np.concatenate([self._engine, np.full(count, -1)])
        self._numbers = np.concatenate([self._numbers, np.zeros((4, count))], axis=1)
