"""The client of several nodes: the same calls as `Sandbox`, run wherever there is room."""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial

from records.tool_call import Status, ToolCall, ToolResult
from sandbox.client.client import Caller
from sandbox.client.connection import Link, SandboxError
from sandbox.client.tool_runner import ToolRunner
from sandbox.serve import proof_of
from sandbox.wire import FrameReader, Kind, WireError, pack, refusal, refusal_when_withdrawn, retry_after_s

HEARTBEAT_S = 1.0
CONNECT_WITHIN_S = 10.0
DOWN_S = 2.0
"""A node that failed is not asked for so long."""
FULL_S = 0.1
GIVE_UP_S = 10.0
"""After all nodes have been away for so long, calls that wait end as lost."""


class RemoteNode(Caller):
    """One node. Calls in flight when it dies end as lost.

    Raises:
        SandboxError: nobody listens there, or the secret is wrong.
    """

    def __init__(self, address: str, secret: bytes) -> None:
        super().__init__()
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit():
            raise SandboxError(f"node address {address!r} is not HOST:PORT")
        self.address, self._host, self._port, self._secret = address, host, int(port), secret
        self.num_in_flight = 0
        self.not_before_t = 0.0
        self.seen_t = time.monotonic()
        """When it last answered."""
        with self._lock:
            self._start()

    @property
    def credit(self) -> int:
        """Calls it can take now."""
        if time.monotonic() < self.not_before_t:
            return 0
        return int(self.started.get("credit", 1)) - self.num_in_flight

    @property
    def is_away(self) -> bool:
        """Not connected, and silent for long."""
        return self._link is None and time.monotonic() - self.seen_t > GIVE_UP_S

    def _new_link(self) -> Link:
        try:
            link = socket.create_connection((self._host, self._port), timeout=CONNECT_WITHIN_S)
            link.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link.sendall(pack(Kind.HELLO, 0, proof_of(self._secret, _receive_nonce(link))))
        except (OSError, WireError) as error:
            raise SandboxError(f"node {self.address} does not answer as one: {error}") from error
        return Link(self, link, heartbeat_s=HEARTBEAT_S)


def _receive_nonce(link: socket.socket) -> bytes:
    reader = FrameReader(max_frame_bytes=256)
    while data := link.recv(4096):
        for kind, _, payload in reader.feed(data):
            if kind is Kind.HELLO:
                return payload
            raise WireError("it did not begin with a challenge")
    raise WireError("it hung up")


class Nodes(ToolRunner):
    """Several nodes as one sandbox. A call waits here until a node has credit; what a node refuses goes elsewhere.

    Only a call that a node says it never started is issued again. A call on a node that died ends as lost, a session
    there as session_lost.
    """

    def __init__(self, addresses: Sequence[str], *, secret: bytes) -> None:
        if not addresses:
            raise SandboxError("no node addresses were given")
        self._nodes = [RemoteNode(address, secret) for address in addresses]
        self._lock = threading.RLock()
        self._waiting: deque[tuple[ToolCall, Future[ToolResult]]] = deque()
        self._node_of: dict[str, RemoteNode] = {}
        self._has_timer = False
        self._is_closed = False

    def submit(self, call: ToolCall) -> Future[ToolResult]:
        """As `Sandbox.submit`."""
        future: Future[ToolResult] = Future()
        with self._lock:
            if self._is_closed:
                future.set_result(refusal(Status.REJECTED, "the sandbox is closed", call.id))
                return future
            self._waiting.append((call, future))
        self._pump()
        return future

    def cancel(self, call_id: str) -> None:
        """As `Sandbox.cancel`."""
        with self._lock:
            for entry in self._waiting:
                if entry[0].id == call_id:
                    self._waiting.remove(entry)
                    entry[1].set_result(refusal_when_withdrawn(call_id))
                    return
        for node in self._nodes:
            node.cancel(call_id)

    def close_session(self, name: str) -> None:
        """As `Sandbox.close_session`."""
        with self._lock:
            node = self._node_of.pop(name, None)
        if node is not None:
            node.close_session(name)

    def close(self) -> None:
        """Hang up everywhere; what waits or runs ends as cancelled."""
        with self._lock:
            self._is_closed = True
            waiting, self._waiting = list(self._waiting), deque()
        for call, future in waiting:
            future.set_result(refusal(Status.CANCELLED, "the sandbox was closed", call.id))
        for node in self._nodes:
            node.close()

    def _pump(self) -> None:
        """Hand out what can be handed out now."""
        while True:
            with self._lock:
                if not self._waiting:
                    return
                call, future = self._waiting[0]
                node = self._pick(call)
                if node is None and not self._is_deserted():
                    self._pump_later()
                    return
                self._waiting.popleft()
                if node is not None:
                    node.num_in_flight += 1
            if node is None:
                why = f"no node has answered for {GIVE_UP_S:g} s: {', '.join(n.address for n in self._nodes)}"
                future.set_result(refusal(Status.LOST, why, call.id))
                continue
            node.submit(call).add_done_callback(partial(self._on_done, call, future, node))

    def _pick(self, call: ToolCall) -> RemoteNode | None:
        """The node with the most room; of a session, its own."""
        node = self._node_of.get(call.session) if call.session is not None else None
        if node is None:
            node = max(self._nodes, key=lambda candidate: candidate.credit)
        if node.credit <= 0:
            return None
        if call.session is not None:
            self._node_of[call.session] = node
        return node

    def _is_deserted(self) -> bool:
        """No node is there, and none has been for some time; each is asked again with a call every few seconds."""
        return all(node.is_away for node in self._nodes)

    def _on_done(
        self, call: ToolCall, future: Future[ToolResult], node: RemoteNode, done: Future[ToolResult]
    ) -> None:
        result = done.result()
        was_refused = retry_after_s(result) is not None
        with self._lock:
            node.num_in_flight -= 1
            if was_refused:
                node.not_before_t = time.monotonic() + FULL_S
            elif result.status is Status.LOST:
                node.not_before_t = time.monotonic() + DOWN_S
            if result.status is not Status.LOST:
                node.seen_t = time.monotonic()
            is_issued_again = was_refused and not self._is_closed
            if is_issued_again:
                self._waiting.appendleft((call, future))
        if not is_issued_again:
            future.set_result(result)
        self._pump()

    def _pump_later(self) -> None:
        """Look again soon; called with the lock held."""
        if not self._has_timer:
            self._has_timer = True
            timer = threading.Timer(FULL_S, self._on_timer)
            timer.daemon = True
            timer.start()

    def _on_timer(self) -> None:
        with self._lock:
            self._has_timer = False
        self._pump()
