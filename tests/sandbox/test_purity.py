"""The definition of pure: programs of arithmetic are; every use of seed, clock or interpreter is not."""

from __future__ import annotations

import pytest

from records.tool_call import ToolCall
from sandbox import Sandbox
from sandbox.client.purity import is_pure

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


PURE_THOUGH_CAREFUL = [
    "count = 0\nproduct = 1\nfor i, x in enumerate([1, 2]):\n    count += x\n    product *= x\nprint(count, product)",
    "a, b = map(int, input().split())\nprint(f'{a:>4} {b / a:.2f} {len(str(a))}')",
    "from math import gcd\nprint({gcd(a, 12) for a in range(20)}, sorted({3, 1, 2}))",
    "from math import *\nprint(sqrt(2), floor(pi))",
    "import itertools as it\nprint(list(it.chain([1], (x for x in range(3)))), sum(it.islice(it.count(1), 3)))",
    "f = lambda x: x + 1\nprint(max([3, 4], key=lambda x: -x), sorted(['b', 'a'], key=str.lower), list(map(f, [1])))",
    "d = {}\nd[1] = 0.5\nprint(sorted(d.items()), max(d, key=d.get), d.keys())",
    "print(*[x for x in range(3)], *(y for y in 'ab'), sep=',')  # it's the sum of max",
    "print('the max is', max(map(len, ['a', 'bb'])), \"and sum's\", sum(x for x in range(4)))",
    "print(''.join(str(x) for x in range(5)), next(x for x in range(5) if x > 2))",
    "print(list(zip([1], map(str, [2]))), dict(zip('ab', [1, 2])), any(x > 1 for x in (1, 2)))",
    "print('''max and sum''', max(\n    1,\n    2,\n))",
]
ADDRESSED = [
    "def f(): pass\nprint(repr(f)[20:])",
    "def f(): pass\nprint(sum(map(ord, str(f))))",
    "print(str(lambda: 0)[25:])",
    "f = lambda: 0\nprint(f'{f}'[20:])",
    "print(f'{print!r:.30}', '%.25s' % len)",
    "print(len)",
    "print({print, len, abs, sum})",
    "from math import sqrt, sin, cos\nprint({sqrt, sin, cos})",
    "import math\nprint({math.sqrt, math.sin, math.cos})",
    "import math as m\nprint(str(m.sin))",
    "import math\nimport cmath as c\nfor x in {math, c}: print(x)",
    "from math import *\nprint({sin, cos})",
    "print(list({f for f in (abs, all, any)}))",
    "s = set()\nfor f in (min, max): s.add(f)\nprint(s)",
    "print({iter([]), iter(()), iter('')})",
    "print(str(map(int, '1')))",
    "x = map(int, '12')\nprint(x)",
    "x, = [map(int, '12')]\nprint({x, 1})",
    "print({zip(), enumerate([]), reversed([])})",
    "print(str((x for x in ()))[30:])",
    "g = (x for x in ())\nprint({g, 1})",
    "print({(x for x in ()), (y for y in ())})",
    "def f():\n    yield 1\nprint({f(), f()})",
    "def f(x): print({x, 0})\nf(y for y in ())",
    "def f(*x): print(set(x))\nf(map(int, ''), zip())",
    "def list(x): print({x})\nlist(map(int, ''))",
    "def update(x): print({x})\nupdate(zip())",
    "def g(key): print(str(key)[20:])\ng(key=len)",
    "def sort(key): print(str(key)[20:])\nsort(key=len)",
    "def accumulate(f): print(str(f)[20:])\naccumulate(len)",
    "def g(x, f=len): print({f, x})\ng(1)",
    "def outer():\n    def inner(): pass\n    return inner\nprint(str(outer())[30:])",
    "print(str([].append)[30:], {''.join, ' '.join})",
    "import itertools\nprint({itertools.count(), itertools.count()})",
    "from itertools import repeat, count\nprint(list(repeat(count(), 2)))",
    "from itertools import groupby\nprint({g for _, g in groupby('aab')})",
    "from itertools import tee\nprint(set(tee([1])))",
    "inf = 1e999\nprint({inf - inf, inf - inf, 1, 2})",
    "print({float('nan') for _ in range(4)} | {1, 2})",
    "import math\nprint(sorted({math.nan, -math.nan, 1, 2}))",
    "x = 1e200 * 1e200\nprint(sorted({x - x, 1, 0, x / x, 2}))",
    "x = 2 ** -1 * 10 ** 308 * 10 ** 308\nprint({x - x, 1, 2})",
    "n = -1\nx = 2 ** n * 10 ** 308 * 10 ** 308\nprint({x - x, 1, 2})",
    "x = pow(10, 300) * pow(10, -1) * pow(10, 300)\nprint(set([x - x, 1]))",
    "a = {1e999 - 1e999: 1, 2: 3}\nprint(a.keys() | a.keys())",
    "s = set()\nfor x in (0, 1):\n    try: 1 / 0\n    except ZeroDivisionError as e: s.add(e)\nprint(s)",
    "print({ValueError(1), KeyError(2)})",
    "print({{}.values(), {1: 2}.values()})",
    "print((f := len) and str(f))",
    "if'x':print(str(len))",
    "print(f'{str(len)[20:]}')",
    "print(f\"{'}'}{len}\")",
    "print(f'{1:{len}}')",
    "print(1.0.hex, 1 .real)",
    "@print\ndef f(): pass",
    "for f in len, abs: print(hex, f)",
    "match len:\n    case x: print({x, abs})",
]
BREAKING = [
    "(" * 4000,
    "f'" * 2000,
    "{" * 3000 + "}" * 1000,
    "f'{" * 1000,
    "'''",
    "\x00",
    "x.",
    ".",
    "**",
    ")",
    "f'{}'",
]


@pytest.mark.parametrize("code", BREAKING)
def test_no_text_breaks_the_reading(code: str) -> None:
    assert is_pure(code) in (True, False)


@pytest.mark.parametrize("code", [*PURE, *PURE_THOUGH_CAREFUL])
def test_code_on_its_own_data_is_pure(code: str) -> None:
    assert is_pure(code)


@pytest.mark.parametrize("code", [*IMPURE, *ADDRESSED])
def test_code_that_may_use_more_than_its_data_is_not_pure(code: str) -> None:
    assert not is_pure(code)


def test_pure_programs_give_equal_results_under_any_seed_in_any_sandbox() -> None:
    outcomes = []
    for start in range(2):
        with Sandbox(workers=1, preload=()) as sandbox:
            calls = [
                ToolCall(id=f"{seed}/{n}", code=code, stdin="17 5\n", seed=seed)
                for n, code in enumerate([*PURE, *PURE_THOUGH_CAREFUL])
                for seed in (start, 7 + start)
            ]
            results = [sandbox.run(call).without_clock() for call in calls]
        outcomes.append([(r.status, r.stdout, r.stderr, r.value, r.error) for r in results])
    assert outcomes[0] == outcomes[1]
    assert outcomes[0][::2] == outcomes[0][1::2]


def test_a_program_that_draws_differs_by_seed() -> None:
    with Sandbox(workers=1, preload=()) as sandbox:
        drawn = {sandbox.run(ToolCall(id=str(s), code=IMPURE[0], seed=s)).stdout for s in range(3)}
    assert len(drawn) == 3
