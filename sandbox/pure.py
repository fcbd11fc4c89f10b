"""Which programs are pure: what they print follows from their text and their stdin alone.

A call's seed fixes the random streams that its code sees, so two calls of one program may differ, and do when the
program draws. They cannot differ when it has no way to a random stream, to the clock, to the machine or to its own
interpreter. That is read off the words of the text: programs that stay within arithmetic, text and collections pass;
whatever is not known to be harmless does not. Parsing is left to the sandbox: the text is a model's.
"""

from __future__ import annotations

import builtins
import re

_MODULES = "math|cmath|itertools"
"""Nothing in them but functions of their arguments. Modules written in Python hold other modules."""
_IMPORT = re.compile(
    rf"(?:^|[;:\n])[ \t]*"
    rf"(?:from[ \t]+(?:{_MODULES})[ \t]+import[ \t]+(?:\*|\w+(?:[ \t]*,[ \t]*\w+)*)"
    rf"|import[ \t]+(?:{_MODULES})(?:[ \t]+as[ \t]+\w+)?)[ \t]*(?=[;\n#]|$)"
)
"""A whole statement: what stands behind a `from` of another module must not pass for one."""
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

    A False may be wrong, a True may not.

    >>> is_pure("import math\nprint(math.comb(18, 7) % 150)")
    True
    >>> is_pure("import random\nprint(random.random())"), is_pure("print(open('/proc/uptime').read())")
    (False, False)
    """
    if len(code) > _MOST_CHARS or not code.isascii() or _INSPECTS.search(code):
        return False
    words = _WORD.findall(code)
    return words.count("import") == len(_IMPORT.findall(code)) and not (set(words) & _BUILTINS) - _HARMLESS
