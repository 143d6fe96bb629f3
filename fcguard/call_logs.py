"""Keep what is logged during a guard's calls where the other evidence of those calls is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from weakref import WeakMethod

from fcguard.model.call_info import CallInfo
from fcguard.results import ArtifactDirectory
from fcguard.telemetry.capture import LogCapture

__all__ = ["listen_to_calls"]


def listen_to_calls(keep: Callable[..., Any], artifacts: ArtifactDirectory) -> LogCapture:
    """Begin to keep the lines of a guard's calls; those of other guards in the process are left to them.

    Args:
        keep: the guard's method that keeps evidence, by which its calls are known. It is held weakly, so that a guard that
            is forgotten can go.
        artifacts: where evidence goes unless the task has a directory of its own.

    Returns:
        The capture, which listens already.
    """
    ours = WeakMethod(keep)

    def place(info: CallInfo) -> tuple[Path, Path] | None:
        if not info.is_kept_by(ours()):
            return None
        own = info.context.evidence_dir
        directory = artifacts if own is None else ArtifactDirectory(own)
        return directory.root, directory.log_path(info.tool_name, info.request_id)

    capture = LogCapture(artifacts.root, place=place)
    capture.install()
    return capture
