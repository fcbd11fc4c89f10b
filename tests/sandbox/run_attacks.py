"""Attacks on the sandbox as a whole, each beside honest calls; prints the attacks that succeed as JSON.

This is a program, because the tests start it as other users and with another interpreter. An attack returns the
fault that it found, or nothing. `ATTACKS` are regression tests: each of them once succeeded.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from records.tool_call import Limits, Status, ToolCall, ToolResult
from sandbox import Sandbox

NUM_HONEST = 64
_numbers = iter(range(10**9))

METADATA = """
import ctypes, fcntl, os
libc = ctypes.CDLL(None, use_errno=True)
done = []
def attempt(name, action):
    try:
        action()
        done.append(name)
    except OSError: pass
def raw(*arguments):
    if libc.syscall(*arguments) < 0: raise OSError
open('own', 'w').close()
for path in (%r, os.__file__, '/etc/passwd', '..', '.', 'own'):
    name = path.encode()
    attempt(f'chmod {path}', lambda: os.chmod(path, 0o4777))
    attempt(f'utime {path}', lambda: os.utime(path, (1, 1)))
    attempt(f'chown {path}', lambda: os.chown(path, os.getuid(), os.getgid()))
    attempt(f'lchown {path}', lambda: os.lchown(path, os.getuid(), os.getgid()))
    attempt(f'setxattr {path}', lambda: os.setxattr(path, 'user.x', b'1'))
    attempt(f'mkfifo {path}', lambda: os.mkfifo(path + '-fifo'))
    if os.uname().machine == 'x86_64':
        attempt(f'chmod syscall {path}', lambda: raw(90, name, 0o4777))
        attempt(f'fchmodat {path}', lambda: raw(268, -100, name, 0o4777))
        attempt(f'fchmodat2 {path}', lambda: raw(452, -100, name, 0o4777, 0))
        attempt(f'utime syscall {path}', lambda: raw(132, name, None))
        attempt(f'utimes {path}', lambda: raw(235, name, None))
        attempt(f'futimesat {path}', lambda: raw(261, -100, name, None))
        attempt(f'utimensat {path}', lambda: raw(280, -100, name, None, 0))
        attempt(f'setxattrat {path}', lambda: raw(463, -100, name, 0, b'user.x', b'1', 1))
        attempt(f'open_tree {path}', lambda: raw(428, -100, name, 0))
        attempt(f'name_to_handle {path}', lambda: raw(303, -100, name, ctypes.create_string_buffer(200), b'0000', 0))
    try: descriptor = os.open(path, os.O_RDONLY)
    except OSError: continue
    attempt(f'fchmod {path}', lambda: os.fchmod(descriptor, 0o4777))
    attempt(f'fchown {path}', lambda: os.fchown(descriptor, os.getuid(), os.getgid()))
    attempt(f'futimens {path}', lambda: os.utime(descriptor, (1, 1)))
    attempt(f'attributes {path}', lambda: fcntl.ioctl(descriptor, 0x40086602, b'\\x40' + bytes(7)))
    attempt(f'verity {path}', lambda: fcntl.ioctl(descriptor, 0x40806685, bytes(128)))
    attempt(f'lease {path}', lambda: fcntl.fcntl(descriptor, 1024, 0))
    attempt(f'owner of signals {path}', lambda: fcntl.fcntl(descriptor, 8, os.getppid()))
    attempt(f'lock {path}', lambda: fcntl.flock(descriptor, fcntl.LOCK_EX))
done
"""
LOOK = """
import os
seen = []
for path in (%r, '/etc/passwd', '/proc/self', '/boot', '/var'):
    for action in (os.stat, os.chdir, os.readlink, os.statvfs, lambda path: os.access(path, os.F_OK) or 1 / 0):
        try:
            action(path)
            seen.append(path)
        except (OSError, ZeroDivisionError): pass
seen
"""
NAMES = """
import os
for name in ('.%d.%d' % (os.getppid(), k) for k in range(40)): os.makedirs(name + '/x/y')
for pid in range(os.getppid() - 40, os.getppid() + 40): os.makedirs('.%d.0/full' % pid)
for name in ('call', 'trash', 'stores', 'view', '0', '1', 'dirty-1', 'a' * 255): os.makedirs(name + '/full')
for k in range(60): os.makedirs(f'{k}/full', exist_ok=True)
os.mkdir('locked', 0)
os.umask(0o777)
os.mkdir('closed')
os.umask(0)
for k in range(1500):
    os.mkdir('d'); os.chdir('d')
"""
FILES = """
import os
made = 0
try:
    for k in range(%d):
        if k %% 500 == 0:
            os.mkdir(f'd{k}'); os.chdir(f'd{k}')
        os.close(os.open(f'f{k}', os.O_CREAT | os.O_WRONLY)); made += 1
except OSError: pass
os.mkdir('locked', 0) if made < 4000 else None
made
"""
FORGE_AND_SHUT = """
import os, socket, struct, time
text = b'{"status": "ok"}'
os.write(3, struct.pack('<I', len(text)) + text)
socket.socket(fileno=3).shutdown(socket.SHUT_WR)
time.sleep(3)
"""
TAKE_SERVER = """
import os, signal
for target in (os.getppid(), 1, -1, 0 - os.getppid()):
    for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGKILL):
        try: os.kill(target, number) if target != -1 else None
        except OSError: pass
for descriptor in range(3, 200):
    try: os.write(descriptor, b'\\x0c' * 29)
    except OSError: pass
os._exit(0)
"""


def call(code: str, *, cpu_s: float = 10.0, **fields: Any) -> ToolCall:
    """A call that a busy machine does not end."""
    limits = fields.pop("limits", Limits(cpu_s=cpu_s, wall_s=120.0))
    return ToolCall(id=f"call-{next(_numbers)}", code=code, limits=limits, **fields)


def honest(number: int) -> ToolCall:
    """It needs its folder, empty, and prints what only this call can."""
    code = (
        f"import os\nassert os.listdir('.') == []\nopen('h', 'w').write('{number}')\nos.makedirs('a/b')\n"
        f"print(sum(range({number})))\nint(open('h').read()) ** 2"
    )
    return call(code)


def fault_of_honest(number: int, result: ToolResult) -> str:
    if (result.status, result.value, result.stdout) == (Status.OK, str(number**2), f"{sum(range(number))}\n"):
        return ""
    return f"honest call {number}: {result}"


def change_metadata(sandbox: Sandbox, victim: Path) -> str:
    before = victim.stat()
    result = sandbox.run(call(METADATA % str(victim)))
    after = victim.stat()
    unchanged = (before.st_mode, before.st_mtime, before.st_uid) == (
        after.st_mode,
        after.st_mtime,
        after.st_uid,
    )
    return "" if result.value == "[]" and unchanged else f"{result} {before} {after}"


def _is_in_memory(sandbox: Sandbox) -> bool:
    """Whether a call's folder lies in memory: on a disk each file takes a millisecond, so attacks make fewer."""
    return any(state["layer"] == "bounded_tmp" and state["used"] for state in sandbox.started["states"])


def look_around(sandbox: Sandbox, victim: Path) -> str:
    used = {state["layer"] for state in sandbox.started["states"] if state["used"]}
    result = sandbox.run(call(LOOK % str(victim)))
    return "" if result.value == "[]" or "private_root" not in used else str(result)


def take_names_of_the_cleaner(sandbox: Sandbox, _: Path) -> str:
    results = sandbox.run_many(call(NAMES) for _ in range(24 if _is_in_memory(sandbox) else 6))
    return "" if {result.status for result in results} == {Status.OK} else str(results[0])


def use_up_files(sandbox: Sandbox, _: Path) -> str:
    futures = [sandbox.submit(call(FILES % 6_000)) for _ in range(8 if _is_in_memory(sandbox) else 3)]
    opened = sandbox.submit(call("x = 5\nopen('f', 'w').write('x')\nx", session="beside full folders"))
    statuses = {future.result().status for future in futures}
    result = opened.result()
    sandbox.close_session("beside full folders")
    return "" if statuses == {Status.OK} and result.value == "5" else f"{statuses} {result}"


def keep_the_cleaner_busy(sandbox: Sandbox, _victim: Path) -> str:
    """A stopped loop shows in the time of a status call, beyond the effect of a busy machine."""
    num_files = 40_000 if _is_in_memory(sandbox) else 8_000
    futures = [sandbox.submit(call(FILES % num_files, cpu_s=60)) for _ in range(2)]
    worst_s = 0.0
    while not all(future.done() for future in futures):
        time.sleep(0.05)
    for _number in range(20):
        start = time.monotonic()
        sandbox.status()
        worst_s = max(worst_s, time.monotonic() - start)
    return "" if worst_s < 10.0 else f"the loop stopped for {worst_s:.1f} s"


def shut_the_line(sandbox: Sandbox, _: Path) -> str:
    sandbox.submit(call(FORGE_AND_SHUT, session="shut")).result()
    result = sandbox.run(call("1\n#" + "x" * 900_000, session="shut"))
    sandbox.close_session("shut")
    return "" if result.status in (Status.CRASH, Status.SESSION_LOST) else str(result)


def flood_stdin(sandbox: Sandbox, _: Path) -> str:
    result = sandbox.run(call("1", stdin="\U0001f600" * (16 * 2**20)))
    return "" if result.status is Status.REJECTED else str(result)


def flood_the_result(sandbox: Sandbox, _: Path) -> str:
    limits = Limits(cpu_s=20, wall_s=120, memory_bytes=2**30, output_bytes=2**24)
    code = "import sys\nsys.stdout.buffer.write(b'\\x01' * 4_000_000)\nsys.stderr.buffer.write(b'\\xff' * 4_000_000)\n"
    result = sandbox.run(call(code + "chr(0x10ffff) * 300_000", limits=limits))
    return "" if not result.status.is_infrastructure else str(result)


def take_the_fork_server(sandbox: Sandbox, _: Path) -> str:
    before = sandbox.status()["zygotes"]
    statuses = {result.status for result in sandbox.run_many(call(TAKE_SERVER) for _ in range(8))}
    after = sandbox.status()["zygotes"]
    return (
        "" if before == after and statuses <= {Status.CRASH, Status.ERROR} else f"{statuses} {before} {after}"
    )


ATTACKS: dict[str, Callable[[Sandbox, Path], str]] = {
    function.__name__.replace("_", " "): function
    for function in (
        change_metadata,
        look_around,
        take_names_of_the_cleaner,
        use_up_files,
        keep_the_cleaner_busy,
        shut_the_line,
        flood_stdin,
        flood_the_result,
        take_the_fork_server,
    )
}


def main(settings: dict[str, Any]) -> None:
    """Run each attack with 64 honest calls in flight; then look at what is left."""
    victim = Path(settings["tmp_dir"]) / "victim"
    victim.write_text("of the caller")
    faults: dict[str, list[str]] = {}
    with Sandbox(workers=2, preload=(), niceness=0, decayed_niceness=0, **settings) as sandbox:
        supervisor = sandbox.started["supervisor"]
        for name, attack in ATTACKS.items():
            futures = [sandbox.submit(honest(number)) for number in range(NUM_HONEST)]
            found = [attack(sandbox, victim)]
            found += [fault_of_honest(number, future.result()) for number, future in enumerate(futures)]
            if any(found):
                faults[name] = [fault for fault in found if fault][:3]
        status = sandbox.status()
        if status["supervisor"] != supervisor or status["faults"] or status["unclean_seats"]:
            faults["at the end"] = [json.dumps(status)]
        states = sandbox.started["states"]
    victim.unlink()
    layers = [state["layer"] for state in states if state["used"]]
    print(json.dumps({"faults": faults, "layers": layers}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
