"""What folding did to one call's arguments, kept so that single changes can be taken back."""

from __future__ import annotations

from typing import Any

from fcguard.arguments.records import Fold, Path, dotted, place
from fcguard.model.failure import Problem

__all__ = ["Changes"]


class Changes:
    """The changes and refusals of one folding.

    Attributes:
        folds: every change, in order.
        problems: what could mean more than one thing, or must not be there.
        converted: path -> what stood there before a value was converted.
    """

    __slots__ = ("converted", "folds", "problems")

    def __init__(self) -> None:
        self.folds: list[Fold] = []
        self.problems: list[Problem] = []
        self.converted: dict[Path, Any] = {}

    def note(self, path: Path, rule: str, before: Any, after: Any) -> None:
        """Record a change of names or of presence."""
        self.folds.append(Fold(dotted(path), rule, before, after))

    def convert(self, path: Path, rule: str, before: Any, after: Any) -> Any:
        """Record that a value is replaced, and answer the new one."""
        self.note(path, rule, before, after)
        self.converted.setdefault(path, before)
        return after

    def refuse(self, path: Path, rule: str, message: str) -> None:
        """Record a problem."""
        self.problems.append(Problem(place(path), rule, message))

    def adopt(self, other: Changes) -> None:
        """Add the changes of a trial that turned out well."""
        self.folds += other.folds
        self.problems += other.problems
        for path, before in other.converted.items():
            self.converted.setdefault(path, before)
