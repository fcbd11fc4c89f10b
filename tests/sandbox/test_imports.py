"""Imports of the package, of its fork servers, and of a call."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import sandbox
from records.tool_call import ToolResult


def test_the_package_imports_no_module_of_its_own_until_a_name_is_used(project_root: Path) -> None:
    code = "import sys, sandbox; print([name for name in sys.modules if name.startswith('sandbox.')])"
    assert subprocess.check_output([sys.executable, "-c", code], cwd=project_root, text=True) == "[]\n"
    assert all(hasattr(sandbox, name) for name in sandbox.__all__)


def test_a_call_that_compresses_imports_libraries_outside_the_fork_server(
    run: Callable[..., ToolResult],
) -> None:
    code = """
import shutil, sys
before = {"zlib", "bz2", "lzma"} & set(sys.modules)
import bz2, lzma, zlib
open("a", "w").close()
len(before), zlib.crc32(b"a"), bz2.decompress(bz2.compress(b"a")), shutil.make_archive("out", "xztar", ".", "a")[-10:]
"""
    assert run(code).value == "(0, 3904355907, b'a', 'out.tar.xz')"
