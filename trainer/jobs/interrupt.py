"""`StopSignal`: SIGTERM and Ctrl-C between two steps; the job saves its state first and never stops during a write."""

from __future__ import annotations

import signal
from types import FrameType


class StopSignal:
    """Read `requested` at safe points. A second signal ends the process at once."""

    def __init__(self) -> None:
        self.requested: int | None = None
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._note)

    def _note(self, number: int, _frame: FrameType | None) -> None:
        if self.requested is not None:
            raise SystemExit(128 + number)
        self.requested = number

    def leave(self) -> None:
        """Exit with the status of the signal: the job is incomplete, its state is saved."""
        assert self.requested is not None
        raise SystemExit(128 + self.requested)
