"""`ToolRunner`, the interface of everything that runs tool calls."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from concurrent.futures import Future
from types import TracebackType
from typing import Self

from records.tool_call import ToolCall, ToolResult


class ToolRunner(ABC):
    """Runs calls; leaving its `with` block closes it."""

    @abstractmethod
    def submit(self, call: ToolCall) -> Future[ToolResult]:
        """Accept a call and return at once; the future always gets a result, never an exception."""

    @abstractmethod
    def close_session(self, name: str) -> None:
        """Forget the interpreter of a session; its next call starts a new one."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources; repeated calls have no effect."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, call: ToolCall) -> ToolResult:
        """Run one call and wait for it."""
        return self.submit(call).result()

    def run_many(self, calls: Iterable[ToolCall]) -> list[ToolResult]:
        """Run calls at once and wait for all; results are in the order of the calls."""
        futures = [self.submit(call) for call in calls]
        return [future.result() for future in futures]
