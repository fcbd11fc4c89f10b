"""`Places`: paths of the folders of the seats. Fork servers import it, so it imports almost nothing."""

from __future__ import annotations

import functools

# hashlib is avoided: a fork server would map it, and each fork copies every mapping. `random` maps _sha512 anyway.
from _sha512 import sha512  # pyright: ignore[reportMissingImports]
from dataclasses import dataclass


@functools.cache
def _store_name(salt: str, seat: int) -> str:
    return sha512(f"{salt} {seat}".encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Paths of the folders of the seats, from plain values, so that fork servers compute the same paths."""

    root: str
    salt: str
    """Makes the name of a store unguessable for the code in another seat."""
    inside: str = ""
    """Path of a call's folder in its private root; empty without a private root."""

    @property
    def view(self) -> str:
        return f"{self.root}/view"

    def store_of(self, seat: int) -> str:
        return f"{self.root}/stores/{_store_name(self.salt, seat)}"

    def call_of(self, seat: int) -> str:
        """Return the folder of the call in this seat, as the supervisor sees it."""
        return f"{self.store_of(seat)}/call"

    def trash_of(self, seat: int) -> str:
        return f"{self.store_of(seat)}/trash"

    def root_of(self, seat: int) -> str:
        """Return the private root of a seat."""
        return f"{self.root}/roots/{seat}"

    def shown_to(self, seat: int) -> str:
        """Return the folder of the call in this seat, as its code sees it."""
        return self.inside or self.call_of(seat)
