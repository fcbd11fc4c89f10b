"""`AdmissionQueue`: the central queue of rollouts without an engine."""

from __future__ import annotations

from collections import OrderedDict

from trainer.scheduling.policy import Arrival


class AdmissionQueue:
    """First in, first out; a rollout that ends while it waits can leave from the middle.

    >>> queue = AdmissionQueue()
    >>> for name in "abc":
    ...     queue.push(Arrival(session=name, group="g", context_tokens=1, max_new=1))
    >>> queue.discard("a")
    >>> queue.head().session, len(queue)
    ('b', 2)
    """

    def __init__(self) -> None:
        self._arrivals: OrderedDict[str, Arrival] = OrderedDict()

    def __len__(self) -> int:
        return len(self._arrivals)

    def push(self, arrival: Arrival) -> None:
        if arrival.session in self._arrivals:
            raise ValueError(f"rollout {arrival.session!r} is already queued")
        self._arrivals[arrival.session] = arrival

    def head(self) -> Arrival:
        return next(iter(self._arrivals.values()))

    def pop(self) -> Arrival:
        return self._arrivals.popitem(last=False)[1]

    def discard(self, session: str) -> None:
        """Remove a rollout; unknown ones are ignored."""
        self._arrivals.pop(session, None)
