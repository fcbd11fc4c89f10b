"""`reserve`: user ids for the seats of one supervisor that no other supervisor of the machine uses."""

from __future__ import annotations

import socket

BLOCK = 1024
"""User ids are reserved in blocks of this size; a name in the kernel holds a block and ends with its holder."""
_MAX_BLOCKS = 4096


class UidsExhausted(OSError):
    """No user ids are free; the message gives the number required."""


def reserve(first_uid: int, count: int) -> tuple[int, list[socket.socket]]:
    """Reserve `count` user ids from `first_uid` up; return the first and the sockets that hold them while open.

    Raises:
        UidsExhausted: no free ids.
    """
    num_blocks = -(-count // BLOCK)
    first_block = -(-first_uid // BLOCK)
    held: list[socket.socket] = []
    for block in range(first_block, first_block + _MAX_BLOCKS):
        holder = _hold(block)
        if holder is None:
            _release(held)
            continue
        held.append(holder)
        if len(held) == num_blocks:
            return (block - num_blocks + 1) * BLOCK, held
    _release(held)
    raise UidsExhausted(f"no {count} user ids are free from {first_uid} up; close other sandboxes")


def _hold(block: int) -> socket.socket | None:
    holder = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        holder.bind(f"\0sandbox-uids-{block}")
    except OSError:
        holder.close()
        return None
    return holder


def _release(held: list[socket.socket]) -> None:
    for holder in held:
        holder.close()
    held.clear()
