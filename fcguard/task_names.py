"""The names that a task allows and forbids: compared with the tools that there are, and narrowed by the task around it."""

from __future__ import annotations

import difflib
import sys
import warnings
from collections.abc import Collection, Iterable
from fnmatch import fnmatchcase
from typing import Any, Final

from fcguard.config import Toolbox
from fcguard.errors import ConfigurationError, TaskError, UnmatchedNameWarning
from fcguard.model.context import TaskContext, Tools
from fcguard.rules.globs import is_glob, matches

__all__ = ["TaskNames", "narrowed"]

_MOST_JUDGED: Final = 1000


class TaskNames:
    """Compares the names that tasks allow and forbid with the tools of a guard: a misspelt one must not pass in silence.

    Args:
        tools: the guard's tools.
        unregistered: names and globs that tasks may mention although no tool has them.

    Raises:
        ConfigurationError: `unregistered` is no set of texts.
    """

    __slots__ = ("_checked", "_excused", "_judged", "tools")

    def __init__(self, tools: Toolbox, unregistered: Iterable[str]) -> None:
        if isinstance(unregistered, str):
            raise ConfigurationError(
                f"unregistered={unregistered!r} is one text; write a set: unregistered={{{unregistered!r}}}"
            )
        try:
            self._excused = frozenset(unregistered)
            if not all(isinstance(name, str) for name in self._excused):
                raise TypeError
        except TypeError:
            raise ConfigurationError(f"unregistered={unregistered!r} must be a set of texts") from None
        self.tools = tools
        self._judged: set[str] = set()
        self._checked: TaskContext | None = None

    def check(self, context: TaskContext) -> None:
        """Refuse exact names that no tool has, and warn of globs that match none (once each).

        Args:
            context: what a task is opened with.

        Raises:
            TaskError: a name is of no tool.
        """
        if context is self._checked:  # calls that are given one context come here each time; and tools never leave
            return
        known = self.tools.names()
        for option, entries in (("allow", context.tools.allow), ("forbid", context.goal.forbidden_actions)):
            for entry in entries or ():
                if entry not in known and entry not in self._judged and not matches(entry, self._excused):
                    self._judge(option, entry, known)
        self._checked = context

    def _judge(self, option: str, entry: str, known: Collection[str]) -> None:
        way_out = f"if it is meant all the same, say Guard(unregistered={{{entry!r}}})"
        if not is_glob(entry):
            close = difflib.get_close_matches(entry, known, n=1, cutoff=0.6)
            hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(list(known)[:20]) or 'none'};"
            raise TaskError(f"the task's {option} names {entry!r}, which no tool of the guard has; {hint} {way_out}")
        if len(self._judged) >= _MOST_JUDGED:
            self._judged.clear()
        self._judged.add(entry)
        if any(fnmatchcase(name, entry) for name in tuple(known)):
            return
        warnings.warn(
            f"the task's {option} holds {entry!r}, which matches no tool of the guard; {way_out}",
            UnmatchedNameWarning,
            stacklevel=_caller(),
        )


def _caller() -> int:
    """Answer the `stacklevel` at which a warning of the calling function names the code that uses the library."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == "fcguard":
        level, frame = level + 1, frame.f_back
    return level


def narrowed(context: TaskContext, outer: TaskContext, names: Iterable[str]) -> TaskContext:
    """Answer a context that allows no tool, and no write, which the one around it does not, and forbids what that forbids.

    Args:
        context: of the inner task.
        outer: of the task around it.
        names: registered tools; two different globs allow those of them that both match.
    """
    allow = _both(context.tools.allow, outer.tools.allow, names)
    write_allowed = context.tools.write_allowed and outer.tools.write_allowed
    forbidden = context.goal.forbidden_actions | outer.goal.forbidden_actions
    changed: dict[str, Any] = {}
    if (allow, write_allowed) != (context.tools.allow, context.tools.write_allowed):
        changed["tools"] = Tools(allow=allow, write_allowed=write_allowed)
    if forbidden != context.goal.forbidden_actions:
        changed["goal"] = context.goal.model_copy(update={"forbidden_actions": forbidden})
    return context.model_copy(update=changed) if changed else context


def _both(inner: frozenset[str] | None, outer: frozenset[str] | None, names: Iterable[str]) -> frozenset[str] | None:
    if inner is None or outer is None:
        return outer if inner is None else inner
    kept = inner & outer
    candidates = {entry for entry in inner ^ outer if not is_glob(entry)}
    if any(map(is_glob, inner - kept)) and any(map(is_glob, outer - kept)):  # what two globs share, only names can tell
        candidates.update(names)
    kept |= {name for name in candidates if matches(name, inner) and matches(name, outer) and not matches(name, kept)}
    return kept
