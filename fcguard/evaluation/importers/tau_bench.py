"""tau-bench results: `{task_id, trial, reward, info, traj}` a trial, and the gold actions that lie inside them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fcguard.errors import UsageError
from fcguard.evaluation.catalogue import Catalogue
from fcguard.evaluation.gold import Choice, Gold, GoldStep, GoldTask
from fcguard.evaluation.importers.messages import read_messages
from fcguard.evaluation.importers.options import ImportOptions
from fcguard.evaluation.importers.stream import iter_values
from fcguard.evaluation.matchers import compile_matcher
from fcguard.evaluation.trace import CallStatus, Outcome, Session, UnreadLog
from fcguard.model.failure import EffectState

__all__ = ["actions_task", "read", "read_gold", "recognises"]


def recognises(value: Any) -> bool:
    """Whether a value is one trial of tau-bench."""
    return isinstance(value, Mapping) and isinstance(value.get("traj"), list) and "reward" in value


def read(values: Iterable[tuple[str, Any]], unread: UnreadLog, options: ImportOptions) -> Iterator[Session]:
    """Yield a session for each trial."""
    for number, (where, value) in enumerate(values):
        if not recognises(value):
            unread.add(where, "not a trial: traj and reward are needed")
            continue
        reader = read_messages(value["traj"], unread, where, _result, results_by=options.results_by)
        task_id, trial = str(value.get("task_id", number)), value.get("trial")
        trial = trial if isinstance(trial, int) else 0
        outcome, detail = _outcome(value)
        yield Session(
            session_id=f"{task_id}#{trial}",
            task_id=task_id,
            trial=trial,
            outcome=outcome,
            calls=tuple(reader.calls),
            reason_told=bool(reader.reason_told),
            detail=detail,
        )


def _result(message: Mapping[str, Any], text: str) -> tuple[CallStatus, str | None, EffectState | None]:
    """A tool of tau-bench answers `Error: ...` when it refuses, before it changes anything."""
    if text.startswith("Error"):
        return "failed", "PRECONDITION_FAILED", "not_applied"
    return "succeeded", None, None


def _outcome(value: Mapping[str, Any]) -> tuple[Outcome, str]:
    info = value.get("info")
    if isinstance(info, Mapping) and "error" in info:
        return "infra_error", str(info["error"])[:200]
    reward = value.get("reward")
    if isinstance(reward, bool) or not isinstance(reward, (int, float)):
        return "unscored", "no reward"
    return ("passed" if abs(reward - 1.0) < 1e-6 else "failed"), ""


def read_gold(path: str | Path, catalogue: Catalogue | None = None, *, suite: str = "tau-bench") -> Gold:
    """Read the gold actions of a result file. They were written by the benchmark's authors, not by the model.

    Args:
        path: the result file.
        catalogue: tells which actions write, so that a read is never taken for a wrong write.
        suite: name of the suite.

    Raises:
        UsageError: the file holds no task.
    """
    tasks: dict[str, GoldTask] = {}
    for number, (_, value) in enumerate(iter_values(Path(path), UnreadLog())):
        info = value.get("info") if recognises(value) else None
        task = info.get("task") if isinstance(info, Mapping) else None
        if not isinstance(task, Mapping):
            continue
        task_id = str(value.get("task_id", number))
        if task_id not in tasks:
            actions = [(row.get("name", ""), row.get("kwargs", {})) for row in task.get("actions", ())]
            tasks[task_id] = actions_task(task_id, actions, catalogue, prompt=str(task.get("instruction", "")))
    if not tasks:
        raise UsageError(f"{str(path)!r} holds no task of tau-bench")
    return Gold(suite, tasks)


def actions_task(
    task_id: str,
    actions: Iterable[tuple[str, Mapping[str, Any]]],
    catalogue: Catalogue | None = None,
    *,
    prompt: str = "",
    slice: str = "",
) -> GoldTask:
    """Make the gold of a task from a list of reference actions (name, arguments) in any order.

    Reads are optional and other reads are free (there are many ways to find out); writes are neither, and their arguments
    must be equal.
    """
    steps = []
    for number, (name, arguments) in enumerate(actions, 1):
        spec = catalogue.tools.get(("", name)) if catalogue is not None else None
        effect = spec.effect if spec is not None else None
        choice = Choice(name, arguments=compile_matcher({"$exact": dict(arguments)}))
        steps.append(GoldStep(str(number), (choice,), optional=effect == "read", effect=effect))
    return GoldTask(task_id, (tuple(steps),), slice=slice, prompt=prompt, free_reads=True)
