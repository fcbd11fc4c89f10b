"""`Link` and `ProcessLink`: the connection to one supervisor, with the thread that reads it and the process."""

from __future__ import annotations

import contextlib
import json
import os
import select
import socket
import subprocess
import threading
from collections import deque
from typing import Any, Protocol

from records.errors import UserError
from sandbox.server import call_folders, fork_servers, orphans
from sandbox.server.supervisor_state import READ_BYTES
from sandbox.settings import Settings
from sandbox.wire import FrameReader, Kind, WireError, take_batch


class SandboxError(UserError):
    """The sandbox cannot start; the message gives the reason and the remedy."""


class Owner(Protocol):
    """Takes what the thread of a link reads."""

    def on_frames(self, frames: list[tuple[Kind, int, bytes]]) -> None: ...

    def on_pause(self) -> float | None:
        """Act between two reads; the seconds until the next time, None for no such time."""
        ...

    def on_death(self, link: Link) -> None:
        """The supervisor is gone."""
        ...


class Link:
    """The socket to one supervisor, and the thread that reads it."""

    def __init__(self, owner: Owner, link: socket.socket) -> None:
        self._owner = owner
        self._socket = link
        self._reader = FrameReader()
        self._outbox: deque[bytes] = deque()
        self._send_lock = threading.Lock()
        self._wake_read, self._wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._is_closing = False
        self._thread: threading.Thread | None = None

    def handshake(self) -> dict[str, Any]:
        """Wait until the supervisor is ready."""
        self._socket.settimeout(180.0)
        try:
            while True:
                data = self._socket.recv(1 << 16)
                frames = self._reader.feed(data) if data else [(Kind.FAILED, 0, b"it died at once")]
                for kind, _, payload in frames:
                    if kind is Kind.READY:
                        self._socket.setblocking(False)
                        return json.loads(payload)
                    self.reap()
                    raise SandboxError(f"the sandbox cannot start: {payload.decode('utf-8', 'replace')}")
        except TimeoutError as error:
            self.reap()
            raise SandboxError("the sandbox did not start within 180 s") from error
        except (OSError, ValueError):
            self.reap()
            raise

    def listen(self) -> None:
        self._thread = threading.Thread(target=self._listen, name="sandbox-client", daemon=True)
        self._thread.start()

    def send(self, frame: bytes) -> None:
        """Send as much as the socket accepts; the thread sends the rest."""
        with self._send_lock:
            if not self._outbox:
                with contextlib.suppress(BlockingIOError, OSError):
                    frame = frame[self._socket.send(frame) :]
            if frame:
                self._outbox.append(frame)
                self._wake()

    def _wake(self) -> None:
        if self._wake_write >= 0:
            with contextlib.suppress(BlockingIOError):
                os.write(self._wake_write, b"x")

    def _listen(self) -> None:
        poller = select.poll()
        poller.register(self._wake_read, select.POLLIN)
        events = select.POLLIN
        poller.register(self._socket.fileno(), events)
        while not self._is_closing:
            pause_s = self._owner.on_pause()
            for descriptor, _ in poller.poll(None if pause_s is None else 1000 * pause_s):
                if descriptor == self._wake_read:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self._wake_read, 4096)
            if not self._read() and not self._is_closing:
                self._owner.on_death(self)
                return
            awaited = select.POLLIN | (0 if self._flush() else select.POLLOUT)
            if awaited != events:
                events = awaited
                poller.modify(self._socket.fileno(), events)

    def _flush(self) -> bool:
        with self._send_lock:
            while self._outbox:
                data = take_batch(self._outbox)
                try:
                    num_sent = self._socket.send(data)
                except BlockingIOError:
                    num_sent = 0
                except OSError:
                    return True
                if num_sent < len(data):
                    self._outbox.appendleft(data[num_sent:])
                    return False
            return True

    def _read(self) -> bool:
        """Pass received frames to the caller; return False when the supervisor has closed the connection."""
        try:
            data = self._socket.recv(READ_BYTES)
        except BlockingIOError:
            return True
        except OSError:
            return False
        if not data:
            return False
        try:
            self._owner.on_frames(self._reader.feed(data))
        except WireError:
            return False
        return True

    def close(self) -> None:
        """Close the connection; the supervisor then cleans up and ends."""
        self._is_closing = True
        with self._send_lock:
            self._wake()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(timeout=10.0)
        self.reap(wait_s=10.0)

    def reap(self, wait_s: float = 0.5) -> None:
        """Close the socket."""
        self._socket.close()
        with self._send_lock:
            pipe = (self._wake_read, self._wake_write)
            self._wake_read = self._wake_write = -1
        for descriptor in pipe:
            if descriptor >= 0:
                os.close(descriptor)


class ProcessLink(Link):
    """A supervisor that is a child of this process."""

    def __init__(self, settings: Settings, owner: Owner) -> None:
        own_end, other_end = socket.socketpair()
        self._process = subprocess.Popen(
            fork_servers.command(settings.python, "server.supervise", settings.to_text()),
            stdin=other_end.fileno(),
            stdout=subprocess.DEVNULL,
            env=fork_servers.clean_environment(),
            cwd="/",
            process_group=0,
        )
        other_end.close()
        super().__init__(owner, own_end)
        self._settings = settings
        self._traces: orphans.Traces | None = None
        self._namespace = -1

    def handshake(self) -> dict[str, Any]:
        """Wait until the supervisor is ready, and keep what identifies its processes."""
        started = super().handshake()
        if self._settings.allow_processes:
            traces = started["traces"]
            if traces["mount_namespace"]:
                self._namespace = os.open(f"/proc/{self._process.pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
            self._traces = orphans.Traces(**traces)
        return started

    def reap(self, wait_s: float = 0.5) -> None:
        """Wait for the process to end, and kill it if it does not."""
        super().reap()
        try:
            self._process.wait(timeout=wait_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._settings.allow_processes and self._traces is not None:
            orphans.sweep(self._traces)
        if self._namespace >= 0:
            os.close(self._namespace)
            self._namespace = -1
        # The supervisor mounts a bounded folder for itself alone: only another process, after its end, can remove it.
        call_folders.sweep(self._settings.tmp_dir)
