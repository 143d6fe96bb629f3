"""Export of sessions as tool-chain traces: `{step, subtask_id, tool, status, retry_count, depends_on}` a call."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

from fcguard.evaluation.align import Alignment
from fcguard.evaluation.trace import CallRecord, CallStatus, Session

__all__ = ["tool_chain", "write_tool_chains"]

_WORDS: Final[dict[CallStatus, str]] = {
    "succeeded": "success",
    "failed": "failed",
    "refused": "blocked",
    "uncertain": "uncertain",
    "unknown": "unknown",
}


def tool_chain(
    session: Session, alignment: Alignment | None = None, *, arguments: bool = False
) -> list[dict[str, Any]]:
    """Write a session as a tool chain.

    Args:
        session: the session.
        alignment: tells the subtask of calls that do not name one: the gold step they were aligned with.
        arguments: also write `args` (as recorded); the published format has none.

    Returns:
        One plain dict a call, numbered from 1. The importer `tool_chain` reads it back.
    """
    steps = {}
    if alignment is not None:
        steps = {pair.position: pair.step.step_id for pair in alignment.pairs if pair.step is not None}
    return [_row(call, number, steps.get(number - 1), arguments) for number, call in enumerate(session.calls, 1)]


def _row(call: CallRecord, number: int, aligned: str | None, arguments: bool) -> dict[str, Any]:
    row: dict[str, Any] = {
        "step": number,
        "subtask_id": call.subtask_id or aligned,
        "tool": call.tool,
        "status": _WORDS[call.status],
        "retry_count": call.retries,
        "depends_on": list(call.depends_on),
    }
    if arguments and call.has_arguments:
        row["args"] = call.raw_arguments
    return row


def write_tool_chains(sessions: Iterable[Session], path: str | Path, *, arguments: bool = False) -> int:
    """Write sessions as JSON Lines, one chain a line, streamed.

    Returns:
        How many were written.
    """
    written = 0
    with Path(path).open("w", encoding="utf-8", errors="backslashreplace") as stream:
        for session in sessions:
            chain = tool_chain(session, arguments=arguments)
            record = {
                "task_id": session.task_id,
                "trial": session.trial,
                "outcome": session.outcome,
                "tool_chain": chain,
            }
            stream.write(json.dumps(record, ensure_ascii=False, default=str) + "\n")
            written += 1
    return written
