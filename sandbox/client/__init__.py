"""Code in the caller's process: `Sandbox` runs calls; `NearLimitCalls` and `EqualCalls` filter them before."""

from sandbox.client.call_record import CallRecord
from sandbox.client.client import Sandbox
from sandbox.client.connection import SandboxError
from sandbox.client.equal_calls import EqualCalls
from sandbox.client.near_limit import NearLimitCalls, is_near_limit, surroundings
from sandbox.client.tool_runner import ToolRunner

__all__ = [
    "CallRecord",
    "EqualCalls",
    "NearLimitCalls",
    "Sandbox",
    "SandboxError",
    "ToolRunner",
    "is_near_limit",
    "surroundings",
]
