"""The way of one call's arguments: read, unwrap, fold, validate, fill defaults."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from fcguard.arguments.changes import Changes
from fcguard.arguments.compiled import Compiled
from fcguard.arguments.faults import Fault
from fcguard.arguments.fold import Folder
from fcguard.arguments.names import RESERVED, is_reserved, spelling
from fcguard.arguments.parse import Unreadable
from fcguard.arguments.reading import WRAPPERS, Reading, read, unwrap
from fcguard.arguments.records import Fold, Normalized, Path, clean, dotted, place
from fcguard.arguments.refusal import failed, missing, refused
from fcguard.model.failure import Problem

__all__ = ["normalize_long"]

_CONTAINERS: Final = (dict, list)
_QUOTING: Final = frozenset({"ambiguous_date", "inexact"})
"""Problems that repeat the value."""


def normalize_long(compiled: Compiled, raw: Any, *, is_read: bool, parsed: dict[str, Any] | None = None) -> Normalized:
    """Normalize arguments that the quick way of `ArgumentSchema` does not cover; never raises, whatever `raw` is.

    Args:
        compiled: the schema.
        raw: as it came.
        is_read: whether the tool only reads.
        parsed: the object that `raw` is the strict JSON text of, if that is known already.
    """
    try:
        reading = read(raw, is_read=is_read) if parsed is None else Reading(parsed, [])
    except Unreadable as fault:
        return refused(compiled, fault, raw)
    except Exception as error:  # an object that fails when it is looked at
        reason = f"reading the arguments raised {type(error).__name__}; pass plain JSON values"
        return refused(compiled, Unreadable("python_value", reason), raw)
    is_text = raw is None or isinstance(raw, str | bytes | bytearray | memoryview)
    source = raw if is_text else dict(reading.value or {})
    if reading.value is None:
        return _empty(compiled, reading, source)
    if compiled.declared or compiled.closed:
        unwrap(reading, compiled.declared)
    return _normalized(compiled, reading.value, reading.folds, source, is_read=is_read)


def _normalized(
    compiled: Compiled, sent: dict[str, Any], folds: list[Fold], source: Any, *, is_read: bool
) -> Normalized:
    folder = Folder(compiled.engine, compiled.naming, is_read=is_read)
    value = folder.fold(sent)
    problems = [*_name_problems(compiled, value), *(_masked(compiled, problem) for problem in folder.changes.problems)]
    if not compiled.engine.is_valid(value):
        value, faults = _take_back(compiled, folder.changes, value)
        problems += compiled.speaker.problems(faults, value)
    folds = folds + folder.changes.folds
    if problems:
        return failed(value, folds, problems, source)
    value, filled = compiled.defaults.fill(value)
    return clean(value, (*folds, *filled), source)


def _take_back(compiled: Compiled, changes: Changes, value: dict[str, Any]) -> tuple[dict[str, Any], list[Fault]]:
    """Undo conversions that did not lead to a valid value, so that faults are worded against what the model sent."""
    faults = compiled.locator.faults(value)
    vain = {path for path in changes.converted if any(fault.path[: len(path)] == path for fault in faults)}
    outermost = [path for path in vain if not any(path[:length] in vain for length in range(len(path)))]
    if not outermost:
        return value, faults
    for path in outermost:
        value = _put(value, path, changes.converted[path])
    undone = tuple(dotted(path) for path in outermost)
    changes.folds = [fold for fold in changes.folds if not _is_undone(fold, undone)]
    return value, compiled.locator.faults(value)


def _is_undone(fold: Fold, undone: tuple[str, ...]) -> bool:
    """Answer whether a fold converted one of the places, or changed what only that conversion brought about."""
    if fold.path in undone:
        return fold.rule not in ("name", "normalizer")
    return any(fold.path.startswith((f"{place}.", f"{place}[")) for place in undone)


def _put(value: Any, path: Path, item: Any) -> Any:
    """Answer a copy of a value with another item at a path."""
    if not path:
        return item
    made = value.copy()
    made[path[0]] = _put(value[path[0]], path[1:], item)
    return made


def _name_problems(compiled: Compiled, value: dict[str, Any]) -> Iterator[Problem]:
    """Yield a problem for each name that is never the model's to send."""
    for name, item in value.items():
        if name in compiled.declared:
            continue
        if compiled.hidden and spelling(name) in compiled.hidden:
            yield Problem(place((name,)), "bound_parameter", "is set by the system and must not be sent; leave it out")
        if name in WRAPPERS and isinstance(item, dict) and compiled.declared & item.keys():
            yield Problem(
                name,
                "wrapper_with_siblings",
                "is not a parameter of this tool, and others stand beside it; send all parameters at the top level",
            )
    todo: list[tuple[Path, Any]] = [((), value)]
    while todo:
        path, node = todo.pop()
        for key, item in node.items() if isinstance(node, dict) else enumerate(node):
            if isinstance(item, _CONTAINERS):
                todo.append(((*path, key), item))
            if (
                isinstance(key, str)
                and (key[:2] == "__" or key in RESERVED)
                and is_reserved(key, item, at_root=not path)
                and key not in compiled.reserved
            ):
                where = place((*path, key))
                yield Problem(where, "reserved_name", "is a reserved name and is never accepted; leave it out")


def _masked(compiled: Compiled, problem: Problem) -> Problem:
    """Take the value out of a problem whose parameter is secret."""
    parts = tuple(re.split(r"[.\[\]]", problem.path))
    if problem.rule not in _QUOTING or not compiled.speaker.is_secret(parts):
        return problem
    return Problem(problem.path, problem.rule, "cannot be accepted as it was sent; the value is not shown")


def _empty(compiled: Compiled, reading: Reading, source: Any) -> Normalized:
    """No arguments at all: an empty object where nothing is required."""
    if not compiled.engine.is_valid({}):
        return missing(compiled, source)
    folds = (*reading.folds, Fold("", "empty_arguments", None, {}))
    value, filled = compiled.defaults.fill({})
    return clean(value, (*folds, *filled), source)
