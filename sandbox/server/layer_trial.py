"""`try_layers`: a trial call at start that attacks what each layer in use prevents.

`sandbox.server.layer_probe` finds what the kernel offers; only code inside a call can show that the isolation holds.
A layer that an attack passes counts as missing, so the reported level includes only layers that held.
"""

from __future__ import annotations

import json
import os
import struct
from dataclasses import replace
from pathlib import Path

from records.tool_call import Limits, ToolCall
from sandbox.child.call import new_job_file
from sandbox.child.fork_server import REPLY, Op
from sandbox.child.jail import JailPlan
from sandbox.child.kernel import ADDR_NO_RANDOMIZE
from sandbox.layers import IsolationReport, Layer
from sandbox.server.fork_servers import Server
from sandbox.server.start_up import StartError
from sandbox.server.supervisor_state import append_only
from sandbox.wire import encode_call

WITHIN_S = 60.0
MEMORY_BYTES = 256 * 2**20
_MAX_REPORT_BYTES = 2**16

_PROGRAM = """
import ctypes, errno, json, os, resource, socket, sys
orders = json.loads(sys.stdin.read())
libc = ctypes.CDLL(None, use_errno=True)
got_through, used = {}, set(orders['layers'])

def attack(layer, name, action, refusals=None):
    if layer not in used:
        return
    try:
        if action() is False:
            return
    except OSError as error:
        if refusals is None or error.errno in refusals:
            return
    except (MemoryError, ValueError, RuntimeError):
        return
    got_through.setdefault(layer, []).append(name)

def refused(layer, name, action):
    attack(layer, name, action, (errno.EPERM, errno.ENOSYS))

def raw(*arguments):
    ctypes.set_errno(0)
    if libc.syscall(*arguments) < 0:
        raise OSError(ctypes.get_errno(), 'refused')

def fork():
    if os.fork() == 0:
        os._exit(0)

def fill():
    size = 0
    while size <= orders['tmp_bytes']:
        with open(f'fill-{size}', 'wb') as file:
            os.posix_fallocate(file.fileno(), 0, 2**22)
        size += 2**22

def too_big():
    status = os.statvfs('.')
    return status.f_blocks * status.f_frsize > orders['tmp_bytes'] + 2**16 or not 0 < status.f_files <= 5000

attack('slot_uid', 'ran as the user of the caller', lambda: os.getuid() != orders['uid'])
attack('rlimits', 'took more memory', lambda: len(bytearray(2 * orders['memory_bytes'])))
attack('rlimits', 'raised a limit', lambda: resource.setrlimit(resource.RLIMIT_AS, (-1, -1)))
attack('no_new_privs', 'could gain privileges', lambda: libc.prctl(39, 0, 0, 0, 0) != 1)
if not orders['allow_processes']:
    refused('seccomp', 'forked', fork)
    refused('seccomp', 'started a program', lambda: os.execv('/nonexistent', ['x']))
refused('seccomp', 'opened a socket', lambda: socket.socket().close())
refused('seccomp', 'made memory that counts nowhere', lambda: os.close(os.memfd_create('x')))
refused('seccomp', 'changed a mode', lambda: os.chmod('.', 0o700))
refused('seccomp', 'changed a time', lambda: os.utime('.'))
refused('seccomp', 'changed an owner', lambda: os.chown('.', -1, -1))
refused('seccomp', 'set an attribute', lambda: os.setxattr('.', 'user.x', b'x'))
refused('seccomp', 'left a namespace', lambda: raw(orders['unshare'], 0x10000000))
for path in orders['foreign']:
    attack('landlock', f'read {path}', lambda: os.close(os.open(path, os.O_RDONLY)))
    attack('landlock', f'wrote {path}', lambda: os.close(os.open(path, os.O_WRONLY)))
    attack('private_root', f'saw {path}', lambda: os.stat(path))
attack('landlock', 'made a file outside', lambda: os.close(os.open('/x', os.O_CREAT | os.O_WRONLY)))
attack('private_root', 'saw the processes', lambda: os.stat('/proc/self'))
for layer in ('signal_scope', 'signal_filter'):
    attack(layer, 'could signal its fork server', lambda: os.kill(os.getppid(), 0))
signal = ctypes.c_int(0)
attack('parent_death', 'would outlive its parent', lambda: libc.prctl(2, ctypes.byref(signal)) or signal.value != 9)
attack('bounded_tmp', 'has a larger folder', too_big)
if orders['tmp_bytes'] <= 2**26:
    attack('bounded_tmp', 'filled more than its folder', fill)
attack('no_capabilities', 'became another user', lambda: os.setuid(12345))
print(json.dumps(got_through))
"""


def try_layers(
    server: Server, plan: JailPlan, report: IsolationReport, *, seat: int, tmp_bytes: int
) -> IsolationReport:
    """Return the report after the trial: layers that an attack passed are missing, with what the attack did.

    Args:
        server: a fork server that is ready.
        plan: the jail in use.
        report: what the kernel offers.
        seat: a free seat; the trial leaves it dirty.
        tmp_bytes: size of the folder of a call.

    Raises:
        StartError: the trial itself did not end.
    """
    orders = {
        "layers": sorted(plan.layers),
        "uid": plan.first_uid + seat,
        "memory_bytes": MEMORY_BYTES,
        "allow_processes": plan.allow_processes,
        "tmp_bytes": tmp_bytes,
        "unshare": 272 if os.uname().machine == "x86_64" else 97,
        "foreign": _foreign(plan),
    }
    found = _attacks_of(_run(server, seat, json.dumps(orders)))
    personality = Path(f"/proc/{server.process.pid}/personality")
    if Layer.FIXED_ADDRESSES in report.used and not int(personality.read_text(), 16) & ADDR_NO_RANDOMIZE:
        found[Layer.FIXED_ADDRESSES] = "the fork server has random addresses"
    return judge(report, found)


def _foreign(plan: JailPlan) -> list[str]:
    """Return paths that no call may see, without those that it may read."""
    paths = ["/etc/passwd", "/proc/self/maps", f"{plan.places.root}/stores", os.path.abspath(__file__)]
    return [path for path in paths if not any(path.startswith(f"{given}/") for given in plan.readable)]


def judge(report: IsolationReport, found: dict[Layer, str]) -> IsolationReport:
    """Count the layers that did not hold as missing."""
    states = []
    for state in report.states:
        if state.used and state.layer in found:
            states.append(replace(state, used=False, why=f"tried at the start, and {found[state.layer]}"))
        elif state.used and state.layer not in _NOT_TRIED:
            states.append(replace(state, why="in use; tried at the start, and it held"))
        else:
            states.append(state)
    return replace(report, states=tuple(states))


_NOT_TRIED = (Layer.HUGE_PAGES, Layer.EAGER_PAGES)
"""Speed, not safety."""


def _attacks_of(text: bytes) -> dict[Layer, str]:
    """Parse what the attacks passed. The report comes from a sandboxed program, so it is not trusted."""
    try:
        record = json.loads(text)
        return {Layer(layer): "the code " + ", ".join(map(str, names)) for layer, names in record.items()}
    except (ValueError, AttributeError, TypeError) as error:
        text_shown = text[-300:].decode("utf-8", "replace")
        raise StartError(f"the trial of the isolation layers left no report, but: {text_shown!r}") from error


def _run(server: Server, seat: int, stdin: str) -> bytes:
    limits = Limits(cpu_s=WITHIN_S, wall_s=WITHIN_S, memory_bytes=MEMORY_BYTES)
    payload = encode_call(ToolCall(id="trial", code=_PROGRAM, stdin=stdin, limits=limits))
    files = [new_job_file(), os.memfd_create("out"), os.memfd_create("err")]
    try:
        os.write(files[0], payload)
        append_only(files[1])
        append_only(files[2])
        server.ask(Op.CALL, seat, job_bytes=len(payload), descriptors=tuple(files))
        server.control.settimeout(WITHIN_S)
        try:
            while REPLY.unpack_from(server.control.recv(4096))[0] != Op.EXITED:
                pass
        except (OSError, struct.error) as error:
            raise StartError("the trial of the isolation layers came to no end") from error
        finally:
            server.control.setblocking(False)
        return b"".join(os.pread(descriptor, _MAX_REPORT_BYTES, 0) for descriptor in files[1:])
    finally:
        for descriptor in files:
            os.close(descriptor)
