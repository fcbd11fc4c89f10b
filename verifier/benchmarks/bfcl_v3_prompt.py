"""BFCL v3 in prompt mode: the published system prompt lists the functions; calls are a Python list."""

from __future__ import annotations

from dataclasses import replace

from verifier.benchmarks import bfcl_v3
from verifier.declaration import PromptKind

BENCHMARK = replace(
    bfcl_v3.BENCHMARK, name="bfcl_v3_prompt", title="BFCL v3, prompt mode", prompt=PromptKind.LISTED
)
