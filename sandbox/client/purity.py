"""`is_pure`: programs whose output follows from their text and their stdin alone.

A call's seed fixes the random streams that its code sees, so two calls of one program may differ, and do when the
program draws. They cannot differ when it has no way to a random stream, to the clock, to the machine or to its own
interpreter. That is read off the words of the text: programs that stay within arithmetic, text and collections pass;
everything else does not. Nor may
its text depend on an address (`sandbox.client.address_free`). Parsing is left to the sandbox: the text is a model's.
"""

from __future__ import annotations

import builtins
import cmath
import itertools
import math
import re

from sandbox.client.address_free import EXACT, ITERTOOLS, Imports, keeps_addresses

_MODULES = "math|cmath|itertools"
"""Nothing in them but functions of their arguments. Modules written in Python hold other modules."""
_IMPORT = re.compile(
    rf"(?:^|[;:\n])[ \t]*"
    rf"(?:from[ \t]+(?:{_MODULES})[ \t]+import[ \t]+(?:\*|\w+(?:[ \t]*,[ \t]*\w+)*)"
    rf"|import[ \t]+(?:{_MODULES})(?:[ \t]+as[ \t]+\w+)?)[ \t]*(?=[;\n#]|$)"
)
"""A whole statement: what stands behind a `from` of another module must not pass for one."""
_NAMES = {module.__name__: frozenset(vars(module)) for module in (math, cmath, itertools)}
_WORD = re.compile(r"[A-Za-z_]\w*")
_BUILTINS = frozenset(dir(builtins))
# fmt: off
_HARMLESS = {
    "ArithmeticError", "AssertionError", "AttributeError", "BaseException", "Exception", "False",
    "IndexError", "KeyError", "LookupError", "NameError", "None", "NotImplementedError", "OverflowError",
    "RecursionError", "RuntimeError", "StopIteration", "SyntaxError", "True", "TypeError",
    "UnboundLocalError", "ValueError", "ZeroDivisionError", "abs", "all", "any", "ascii", "bin", "bool",
    "bytearray", "bytes", "callable", "chr", "complex", "dict", "divmod", "enumerate", "filter", "float",
    "frozenset", "hex", "input", "int", "isinstance", "issubclass", "iter", "len", "list", "map", "max",
    "min", "next", "oct", "ord", "pow", "print", "range", "repr", "reversed", "round", "set", "slice",
    "sorted", "str", "sum", "tuple", "zip"
}
# fmt: on
_INSPECTS = re.compile(r"\\[\r\n]|__|\b(?:gi|cr|ag|f|tb|co)_|\bformat(?:_map)?\b|\bclass\b")
"""Ways from a value to the interpreter: dunders, frames, fields of a format string. And a line that goes on in the
next: the second half of an import may look like a whole one."""
_MOST_CHARS = 4096


def is_pure(code: str) -> bool:
    r"""Whether the program's result follows from its text and its stdin.

    Conservative: never True for an impure program.

    >>> is_pure("import math\nprint(math.comb(18, 7) % 150)")
    True
    >>> is_pure("import random\nprint(random.random())"), is_pure("print(open('/proc/uptime').read())")
    (False, False)
    """
    if len(code) > _MOST_CHARS or not code.isascii() or _INSPECTS.search(code):
        return False
    words = _WORD.findall(code)
    found = list(_IMPORT.finditer(code))
    if words.count("import") != len(found) or (set(words) & _BUILTINS) - _HARMLESS:
        return False
    imports = Imports()
    for statement in found:
        _note(statement.group().lstrip(" \t;\n"), imports)
    return keeps_addresses(_IMPORT.sub("\n", code), imports)


def _note(statement: str, imports: Imports) -> None:
    """Add what an import statement imports."""
    words = _WORD.findall(statement)
    module = words[1]
    if words[0] == "import":
        imports.modules.add(words[-1])
        return
    names = set(_NAMES[module] if "*" in statement else words[3:])
    imports.names |= names
    imports.is_exact &= names <= EXACT | ITERTOOLS
