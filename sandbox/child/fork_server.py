"""`Zygote`: the fork server of one tier. It preloads modules, forks a child per request and reports how each ends.

The fork server never receives the code, so its memory, which all children share, does not depend on earlier calls.
It talks to the supervisor over a SOCK_SEQPACKET pair: one message is one record.
"""

from __future__ import annotations

import array
import contextlib
import gc
import importlib
import io
import json
import os
import select
import signal
import socket
import struct
import sys
import threading
import time
import types
from enum import IntEnum
from typing import Any

from sandbox.child import kernel, random_streams, runner
from sandbox.child.call import Launch
from sandbox.child.jail import Jail, JailPlan, lower_priority, move_high
from sandbox.child.preload_memory import lay_out_memory, rehearse
from sandbox.child.preload_programs import import_and_use
from sandbox.layers import Layer
from sandbox.places import Places
from sandbox.server.preload_tiers import STANDARD

REQUEST = struct.Struct("<BIQd")
"""Format of a request: op, seat, bytes of the job, CPU seconds."""
REPLY = struct.Struct("<BIiidQ")
"""Format of a reply: op, seat, pid, wait status, CPU seconds, max RSS in bytes."""


IDLE_CLASS = 20
"""A niceness beyond 19 means the idle class of the scheduler."""
_COMPRESSORS = ("bz2", "lzma", "zlib")
"""Libraries that `shutil` imports to find out whether they exist. Mapped in a fork server, they make each fork a
sixth longer; a call that compresses imports them itself."""
GC_THRESHOLDS = (20_000, 20, 20)
"""Compiling a short program already exceeds the usual 700 objects, and a collection touches cold memory."""


class Op(IntEnum):
    """Operations: first the requests, then the replies."""

    CALL = 1
    SESSION = 2
    KILL = 3
    ANNOUNCE = 4
    """Raise the wall limit inside the code."""
    CHECK = 5
    """Kill the child if it has used this much CPU time; otherwise report its CPU time."""
    RENICE = 6
    READY = 10
    FAILED = 11
    EXITED = 12
    USED = 13
    STARTED = 14


def preload(modules: list[str]) -> None:
    """Import modules by name and exercise them, so that all children share tables that are built lazily."""
    absent = [name for name in _COMPRESSORS if name not in sys.modules]
    sys.modules.update({name: types.ModuleType(name) for name in absent})
    for name in STANDARD:
        importlib.import_module(name)
    for name in absent:
        del sys.modules[name]
    for name in modules:
        import_and_use(name)


def _new_stdio() -> None:
    """Open text streams on descriptors 0, 1 and 2, where the children place their own files."""
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(
        io.BufferedReader(io.FileIO(0, "r", closefd=False)), encoding="utf-8", errors="surrogateescape"
    )
    sys.stdout = sys.__stdout__ = runner.new_output(1)
    sys.stderr = sys.__stderr__ = runner.new_output(2)


class Zygote:
    """Forks the children of one tier and reports their ends."""

    def __init__(self, control: socket.socket, launch: Launch, signals: int) -> None:
        self.control = control
        self.launch = launch
        self.signals = signals
        self.seat_of: dict[int, int] = {}
        self.pid_of: dict[int, int] = {}

    def serve(self) -> None:
        """Fork and reap until the supervisor closes the connection."""
        poller = select.poll()
        poller.register(self.control.fileno(), select.POLLIN)
        poller.register(self.signals, select.POLLIN)
        while True:
            for descriptor, _ in poller.poll():
                if descriptor == self.signals:
                    with contextlib.suppress(BlockingIOError):
                        os.read(self.signals, 4096)
                    self._reap()
                elif not self._receive():
                    return

    def _receive(self) -> bool:
        message, ancillary, _, _ = self.control.recvmsg(REQUEST.size, socket.CMSG_SPACE(12))
        if not message:
            return False
        op, seat, job_bytes, cpu_s = REQUEST.unpack(message)
        if op in (Op.CALL, Op.SESSION):
            self._fork(op, seat, job_bytes, _descriptors(ancillary))
        elif seat in self.pid_of:
            self._steer(op, seat, self.pid_of[seat], cpu_s)
        return True

    def _fork(self, op: int, seat: int, job_bytes: int, descriptors: tuple[int, int, int]) -> None:
        try:
            pid = os.fork()
        except OSError:
            self._reply(Op.EXITED, seat, 0, -1)
            pid = -1
        if pid == 0:
            self._live(op, seat, job_bytes, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        if pid > 0:
            if self.launch.jail.plan.allow_processes:
                self._lead_a_group(pid)
            self.seat_of[pid] = seat
            self.pid_of[seat] = pid
            if op == Op.SESSION:
                self._reply(Op.STARTED, seat, pid)

    @staticmethod
    def _lead_a_group(pid: int) -> None:
        """Give a child a process group that includes its descendants. Parent and child both call it, in any order."""
        with contextlib.suppress(OSError):
            os.setpgid(pid, 0)

    def _live(self, op: int, seat: int, job_bytes: int, descriptors: tuple[int, int, int]) -> None:
        """Run the child; never returns."""
        try:
            signal.pthread_sigmask(signal.SIG_SETMASK, ())
            if self.launch.jail.plan.allow_processes:
                self._lead_a_group(0)
            if op == Op.CALL:
                self.launch.run_call(seat, job_bytes, descriptors)
            else:
                self.launch.run_session(seat, descriptors)
        except BaseException as error:  # a fault of the sandbox: the supervisor reports this text
            with contextlib.suppress(BaseException):
                os.write(2, f"sandbox: {type(error).__name__}: {error}\n".encode())
        finally:
            os._exit(70)

    def _reap(self) -> None:
        while self.seat_of:
            if self.launch.jail.plan.allow_processes and not self._end_tree_of_dead():
                return
            pid, status, usage = os.wait4(-1, os.WNOHANG)
            if pid == 0:
                return
            seat = self.seat_of.pop(pid, None)
            if seat is None:
                continue
            del self.pid_of[seat]
            self._reply(Op.EXITED, seat, pid, status, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024)

    @staticmethod
    def _end_tree_of_dead() -> bool:
        """Kill what a dead child started while its pid is still reserved; returns False when no child is dead."""
        dead = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if dead is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(dead.si_pid, signal.SIGKILL)
        return dead is not None

    def _steer(self, op: int, seat: int, pid: int, cpu_s: float) -> None:
        """Act on a running child. It is not reaped yet, so its pid cannot belong to another process."""
        with contextlib.suppress(ProcessLookupError):
            if op == Op.KILL:
                self._kill(pid)
            elif op == Op.ANNOUNCE:
                os.kill(pid, runner.WALL_SIGNAL)
            elif op == Op.RENICE:
                _step_back(pid, int(cpu_s))
            elif op == Op.CHECK:
                with contextlib.suppress(OSError):
                    used = time.clock_gettime(kernel.cpu_clock_of(pid))
                    if used >= cpu_s:
                        self._kill(pid)
                    self._reply(Op.USED, seat, pid, 0, used)

    def _kill(self, pid: int) -> None:
        os.kill(pid, signal.SIGKILL)
        if self.launch.jail.plan.allow_processes:
            os.killpg(pid, signal.SIGKILL)

    def _reply(
        self, op: Op, seat: int, pid: int, status: int = 0, cpu_s: float = 0.0, rss_bytes: int = 0
    ) -> None:
        self.control.send(REPLY.pack(op, seat, pid, status, cpu_s, rss_bytes))


def _step_back(pid: int, niceness: int) -> None:
    """Lower the priority of a child thread by thread, until no unchanged thread is left.

    The kernel keeps a priority per thread, and a new thread inherits the priority of its creator.
    """
    _step_thread_back(pid, niceness)
    done = {pid}
    while left := _threads_of(pid) - done:
        for thread in left:
            with contextlib.suppress(ProcessLookupError):
                _step_thread_back(thread, niceness)
        done |= left


def _threads_of(pid: int) -> set[int]:
    try:
        return {int(name) for name in os.listdir(f"/proc/{pid}/task")}
    except OSError:
        return {pid}


def _step_thread_back(thread: int, niceness: int) -> None:
    if niceness < IDLE_CLASS:
        os.setpriority(os.PRIO_PROCESS, thread, niceness)
    else:
        with contextlib.suppress(PermissionError):
            os.sched_setscheduler(thread, os.SCHED_IDLE, os.sched_param(0))


def _descriptors(ancillary: list[tuple[int, int, bytes]]) -> tuple[int, int, int]:
    numbers = array.array("i")
    for _, _, data in ancillary:
        numbers.frombytes(data)
    return numbers[0], numbers[1], numbers[2]


def _plan_jail(orders: dict[str, Any]) -> Jail:
    record = orders["plan"]
    layers = frozenset(Layer(layer) for layer in record["layers"])
    places = Places(**record["places"])
    plan = JailPlan(**{**record, "layers": layers, "readable": tuple(record["readable"]), "places": places})
    jail = Jail(plan=plan)
    jail.prepare(orders["num_seats"])
    return jail


def start(orders: dict[str, Any]) -> None:
    """Turn this process into the fork server that `orders` describe."""
    kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    control = socket.socket(fileno=move_high(orders["control"]))
    try:
        if Layer.PRIVATE_ROOT in orders["plan"]["layers"] and os.geteuid() != 0:
            kernel.enter_user_namespace()  # lets an ordinary user change the root folder
        kept = (entry for entry in sys.path if entry and entry != orders["package_root"])
        sys.path[:] = ["", *orders["python_path"], *kept]
        sys.argv = [runner.FILE_NAME]
        lower_priority(orders["niceness"], tuple(orders["affinity"]) if orders["affinity"] else None)
        random_streams.install()
        preload(orders["modules"])
        _new_stdio()
        threading.excepthook = runner.report_thread_error
        signal.signal(signal.SIGINT, signal.default_int_handler)
        deadline = runner.Deadline()
        deadline.install()
        gc.collect()
        gc.freeze()  # a call ends with a collection, and so does each call of the rehearsal
        rehearse(orders["modules"], deadline)
        signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGCHLD,))
        signals = move_high(kernel.signal_descriptor((signal.SIGCHLD,)))
        gc.collect()
        gc.freeze()
        gc.set_threshold(*GC_THRESHOLDS)
        jail = _plan_jail(orders)
        launch = Launch(jail, deadline)
        lay_out_memory(launch, orders["modules"])
        jail.lock_server()
    except BaseException as error:
        text = f"{type(error).__name__}: {error}"[:2000].encode()
        control.send(REPLY.pack(Op.FAILED, 0, 0, 0, 0.0, 0) + text)
        os._exit(1)
    control.send(REPLY.pack(Op.READY, 0, os.getpid(), 0, 0.0, 0))
    Zygote(control, launch, signals).serve()
    os._exit(0)


def main() -> None:
    """Read the orders, JSON in the last argument, and start."""
    start(json.loads(sys.argv[-1]))
