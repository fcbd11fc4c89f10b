"""A node: one supervisor that serves clients over TCP.

Whoever connects must first prove that it knows the secret: the node sends random bytes, the client answers with
their HMAC. Until then nothing but that answer is read. The traffic itself is not encrypted: it belongs on a trusted
network or inside a tunnel.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import select
import signal
import socket
import time
from pathlib import Path

from sandbox.server.start_up import StartError
from sandbox.server.supervisor import Supervisor
from sandbox.server.supervisor_state import Connection
from sandbox.settings import Settings
from sandbox.wire import FrameReader, Kind, pack

MIN_SECRET_CHARS = 16
PROOF_WITHIN_S = 10.0
_NONCE_BYTES = 32


def read_secret(file: Path) -> bytes:
    """The shared secret of a file.

    Raises:
        StartError: unreadable, or too short to be one.
    """
    try:
        secret = file.read_bytes().strip()
    except OSError as error:
        raise StartError(f"cannot read the secret {file}: {error.strerror}") from error
    if len(secret) < MIN_SECRET_CHARS:
        raise StartError(
            f"the secret in {file} has {len(secret)} characters; give at least {MIN_SECRET_CHARS}"
        )
    return secret


def proof_of(secret: bytes, nonce: bytes) -> bytes:
    """What a client sends to show that it knows the secret."""
    return hmac.digest(secret, b"sandbox node " + nonce, "sha256")


class Node(Supervisor):
    """A supervisor with a door."""

    def __init__(self, settings: Settings, *, host: str, port: int, secret: bytes) -> None:
        super().__init__(settings)
        self._secret = secret
        self._strangers: dict[Connection, tuple[bytes, float]] = {}
        self.listener = socket.create_server((host, port), backlog=64)
        self.listener.setblocking(False)
        self.poller.register(self.listener.fileno(), select.EPOLLIN)
        self.is_stopping = False

    @property
    def address(self) -> str:
        host, port = self.listener.getsockname()[:2]
        return f"{host}:{port}"

    def serve(self) -> None:
        """Work until told to stop."""
        while not self.is_stopping:
            self.step()

    def _on_other(self, descriptor: int) -> None:
        if descriptor != self.listener.fileno():
            return
        with contextlib.suppress(BlockingIOError, OSError):
            link, _ = self.listener.accept()
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            connection = self.add_client(link)
            connection.reader = FrameReader(max_frame_bytes=256)
            nonce = os.urandom(_NONCE_BYTES)
            self._strangers[connection] = (nonce, time.monotonic() + PROOF_WITHIN_S)
            self._post(connection, pack(Kind.HELLO, 0, nonce))

    def _on_frame(self, connection: Connection, kind: Kind, number: int, payload: bytes) -> None:
        if connection not in self._strangers:
            super()._on_frame(connection, kind, number, payload)
            return
        nonce, _ = self._strangers.pop(connection)
        if kind is Kind.HELLO and hmac.compare_digest(payload, proof_of(self._secret, nonce)):
            connection.reader.raise_cap()
            self._post(connection, pack(Kind.READY, 0, self.ready_text()))
            return
        self._post(connection, pack(Kind.FAILED, 0, b"the secret is wrong"))
        self._send_all()
        if connection.is_open:
            self._drop_client(connection)

    def ready_text(self) -> bytes:
        """As a supervisor says it, and how many calls a client may have here at once."""
        credit = self.settings.num_slots + (self.settings.queue_limit or self.settings.num_slots)
        return json.dumps({**json.loads(super().ready_text()), "credit": credit}).encode()

    def _drop_client(self, connection: Connection) -> None:
        self._strangers.pop(connection, None)
        super()._drop_client(connection)

    def _keep_house(self, now: float) -> None:
        super()._keep_house(now)
        for connection, (_, until) in list(self._strangers.items()):
            if now > until:
                self._drop_client(connection)

    def close(self) -> None:
        """Stop listening, then as any supervisor."""
        self.listener.close()
        super().close()


def run_node(settings: Settings, *, host: str, port: int, secret_file: Path, announce: Path | None) -> None:
    """Serve until SIGTERM or SIGINT; `announce` receives the address once calls are accepted.

    Raises:
        StartError: the secret is unusable, the address is taken, isolation is too low.
    """
    secret = read_secret(secret_file)
    try:
        node = Node(settings, host=host, port=port, secret=secret)
    except OSError as error:
        raise StartError(f"cannot listen on {host}:{port}: {error.strerror}") from error

    def stop(_number: int, _frame: object) -> None:
        node.is_stopping = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    try:
        node.start_servers()
        if announce is not None:
            announce.write_text(node.address)
        node.serve()
    finally:
        node.close()
