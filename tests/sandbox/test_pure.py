"""What counts as pure: programs of arithmetic do, every way to the seed, the clock or the interpreter does not."""

from __future__ import annotations

import pytest

from sandbox.client import Sandbox
from sandbox.pure import is_pure
from sandbox.records import ToolCall

PURE = [
    "print((267 - 30) // 3)",
    "print((820 - 85 // 15)",
    "import math\nB = math.comb(18, 7) % 150\nprint(388 * B + 23)",
    "from itertools import combinations, product\nprint(sum(1 for a, b in combinations(range(9), 2)))",
    "import math as m; print(m.pi)",
    "from math import *\nprint(sqrt(2))",
    "x = 15\nfor i in range(4): x = 2 * x + 15\nprint(x)",
    "n, k = map(int, input().split())\nprint(n % k)",
    "def f(n):\n    return n if n < 2 else f(n - 1) + f(n - 2)\nprint(f(20), {'a', 'b', 'c'})",
    "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    print(f'{e!r:>40}')",
    "try: import math\nfinally: print(2)",
    "undefined + 1",
]
IMPURE = [
    "import random\nprint(random.random())",
    "import math, random\nprint(random.random())",
    "import math as m, random as r\nprint(r.random())",
    "import math\\\n, random\nprint(random.random())",
    "from random import random as abs\nprint(abs())",
    "import fractions\nprint(fractions.sys.modules['random'].random())",
    "from random import math",
    "from random \\\nimport math",
    "from random \\\r\nimport math",
    "from random import choice as math\nprint(math([1, 2]))",
    "import mathx",
    "import math.random",
    "print(__import__('time').time())",
    "print(getattr(print, '_' + '_self_' + '_'))",
    "exec('imp' + 'ort time')",
    "eval('1')",
    "print(open('/proc/uptime').read())",
    "print(id([]), hash(print))",
    "print((x for x in ()).gi_frame)",
    "print('{0.gi'.format(1))",
    "'{}'.format_map({})",
    "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    print(e.with_traceback(None), tb_next)",
    "class A:\n    pass",
    "print(type(1))",
    "ｉmport = 1",  # noqa: RUF001
    "print(vars(), globals(), locals())",
    "x = 1\n" * 2000,
]


@pytest.mark.parametrize("code", PURE)
def test_arithmetic_text_and_collections_are_pure(code: str) -> None:
    assert is_pure(code)


@pytest.mark.parametrize("code", IMPURE)
def test_what_may_see_more_than_its_text_is_not(code: str) -> None:
    assert not is_pure(code)


def test_pure_programs_say_the_same_under_any_seed_in_any_sandbox() -> None:
    said = []
    for start in range(2):
        with Sandbox(workers=1, preload=()) as sandbox:
            calls = [
                ToolCall(id=f"{seed}/{n}", code=code, stdin="17 5\n", seed=seed)
                for n, code in enumerate(PURE)
                for seed in (start, 7 + start)
            ]
            results = [sandbox.run(call).without_clock() for call in calls]
        said.append([(r.status, r.stdout, r.stderr, r.value, r.error) for r in results])
    assert said[0] == said[1]
    assert said[0][::2] == said[0][1::2]


def test_a_program_that_draws_does_differ_by_seed() -> None:
    with Sandbox(workers=1, preload=()) as sandbox:
        drawn = {sandbox.run(ToolCall(id=str(s), code=IMPURE[0], seed=s)).stdout for s in range(3)}
    assert len(drawn) == 3
