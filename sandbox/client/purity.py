"""`is_pure`: detects programs whose output follows from their text and their stdin alone.

A call's seed fixes the random streams of its code, so two calls of one program differ if the program draws. They
cannot differ if it cannot reach a random stream, the clock, the machine or its own interpreter. The words of the text
decide: programs that stay within arithmetic, text and collections pass, and every other one fails. The output may
also not depend on an address (`sandbox.client.address_free`). Only the sandbox parses the text: a model wrote it.
"""

from __future__ import annotations

import builtins
import cmath
import itertools
import math
import re
from functools import lru_cache

from sandbox.client.address_free import EXACT, ITERTOOLS, Imports, keeps_addresses

_MODULES = "math|cmath|itertools"
"""Modules that hold only functions of their arguments. Modules written in Python hold other modules."""
_IMPORT = re.compile(
    rf"(?:^|[;:\n])[ \t]*"
    rf"(?:from[ \t]+(?:{_MODULES})[ \t]+import[ \t]+(?:\*|\w+(?:[ \t]*,[ \t]*\w+)*)"
    rf"|import[ \t]+(?:{_MODULES})(?:[ \t]+as[ \t]+\w+)?)[ \t]*(?=[;\n#]|$)"
)
"""A whole statement: the tail of a `from` of another module must not match."""
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
"""Ways from a value to the interpreter (dunders, frames, fields of a format string), and line continuation: the second
half of a continued import may look like a whole import."""
_MOST_CHARS = 4096


@lru_cache(1024)
def is_pure(code: str) -> bool:
    r"""Return whether the program's result follows from its text and its stdin; never True for an impure program.

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
    """Add the names that an import statement imports."""
    words = _WORD.findall(statement)
    module = words[1]
    if words[0] == "import":
        imports.modules.add(words[-1])
        return
    names = set(_NAMES[module] if "*" in statement else words[3:])
    imports.names |= names
    imports.is_exact &= names <= EXACT | ITERTOOLS
