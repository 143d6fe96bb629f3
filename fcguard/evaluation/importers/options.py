"""What a reader may be told about a trace that the trace does not say itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["ImportOptions", "Wrapper"]


@dataclass(frozen=True, slots=True)
class Wrapper:
    """A tool that only passes a call on to another, as MCP routers do: the inner call is the one to judge.

    Attributes:
        tool: name of the outer tool.
        inner_tool, inner_server, inner_arguments: its parameters that name the inner call.
    """

    tool: str
    inner_tool: str
    inner_server: str | None = None
    inner_arguments: str = "arguments"


@dataclass(frozen=True, slots=True)
class ImportOptions:
    """Options of the importers.

    Attributes:
        task_id: task of a trace that holds a single session and names none.
        wrappers: outer tools whose inner call is to be read.
        ignore: tools whose calls are not part of the question (tool search, planning notes).
        results_by: which result belongs to a call when a trace uses one call id twice. `order`: the one that follows the
            call. `last_id`: the last one of that id, for comparison with programs that key results by id; it gives the
            earlier call a result that is not its own.
    """

    task_id: str | None = None
    wrappers: tuple[Wrapper, ...] = ()
    ignore: frozenset[str] = frozenset()
    results_by: Literal["order", "last_id"] = "order"
