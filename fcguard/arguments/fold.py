"""Folds harmless noise out of arguments, as the parameter's schema decides; all is recorded, nothing guessed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fcguard.arguments.changes import Changes
from fcguard.arguments.engine import Engine
from fcguard.arguments.fold_names import fold_names
from fcguard.arguments.fold_value import fold_value, fold_whole
from fcguard.arguments.plain import plain_value
from fcguard.arguments.records import Path
from fcguard.arguments.scalars import is_same

__all__ = ["Folder", "Naming"]

_TRIALS: Final = 20_000
"""Schema nodes that may be visited while the branches of unions are tried; then the value is left as it was sent."""
_CONTAINERS: Final = (dict, list)
_HOPS: Final = 32
"""References and combinators in a row that do not lead deeper into the value."""


@dataclass(frozen=True, slots=True)
class Naming:
    """What a tool declares about its parameters beside the schema.

    Attributes:
        aliases: parameter -> other names for it.
        normalizers: parameter -> callable that gets what was sent and answers what is meant.
    """

    aliases: Mapping[str, Sequence[str]] = field(default_factory=dict)
    normalizers: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)


class Folder:
    """Folds one call's arguments.

    Args:
        engine: the schema.
        naming: aliases and normalizers.
        is_read: whether the tool only reads.
        only_whole: fold nothing but whole floats; for values that are valid as they stand.
        budget: nodes left for trials of branches; None outside of trials.

    Attributes:
        changes: what was done.
    """

    __slots__ = ("budget", "changes", "engine", "is_read", "naming", "normalized", "only_whole")

    def __init__(
        self,
        engine: Engine,
        naming: Naming,
        *,
        is_read: bool = False,
        only_whole: bool = False,
        budget: list[int] | None = None,
    ) -> None:
        self.engine, self.naming, self.is_read = engine, naming, is_read
        self.only_whole, self.budget = only_whole, budget
        self.changes = Changes()
        self.normalized: set[str] = set()

    def fold(self, value: dict[str, Any]) -> dict[str, Any]:
        """Fold the arguments; the given object is not changed."""
        folded: dict[str, Any] = self.part(self.engine.root, value, ())
        return folded

    def part(self, schema: Any, value: Any, path: Path, known: frozenset[str] | None = None, hops: int = 0) -> Any:
        """Fold a value for one subschema of the root.

        Args:
            schema: the very object within the root.
            value: what was sent.
            path: where it stands.
            known: names declared for an object by the schemas around this one; None: by this one.
            hops: references and combinators followed since the last step into the value.

        Returns:
            The value, or a copy with the folds.
        """
        if not isinstance(schema, dict) or hops > _HOPS or self._is_spent():
            return value
        is_plain = self.engine.tree.traits(schema).is_plain
        reference = None if is_plain else schema.get("$ref")
        if isinstance(reference, str):
            value = self.part(self.engine.tree.resolve(reference), value, path, known, hops + 1)
            if self.engine.tree.hides_siblings:
                return value
        if not isinstance(value, _CONTAINERS):
            value = self._scalar(schema, value, path)
        if isinstance(value, dict):
            known = self.engine.tree.declared(schema) if known is None else known
            value = self._object(schema, value, path, known)
        elif isinstance(value, list):
            value = self._array(schema, value, path)
        return value if is_plain else self._combined(schema, value, path, known, hops + 1)

    def _is_spent(self) -> bool:
        if self.budget is None:
            return False
        self.budget[0] -= 1
        return self.budget[0] < 0

    def _scalar(self, schema: dict[str, Any], value: Any, path: Path) -> Any:
        if self.only_whole:
            return fold_whole(schema, value, path, self.changes)
        return fold_value(self.engine, schema, value, path, self.changes, is_read=self.is_read)

    # -- objects and arrays

    def _object(self, schema: dict[str, Any], value: dict[str, Any], path: Path, known: frozenset[str]) -> Any:
        properties = schema.get("properties") or {}
        if properties and not self.only_whole and not value.keys() <= known:
            value = fold_names(self.engine, schema, value, path, self.changes, known=known, aliases=self.naming.aliases)
        changed: dict[str, Any] = {}
        dropped: list[str] = []
        for key, item in value.items():
            if key not in properties:
                subs: Iterator[Any] | tuple[Any, ...] = self._extra(schema, key)
            elif item != "" and not self.naming.normalizers and self._is_settled(properties[key], item):
                continue
            elif self._drops(schema, key, item, path):
                dropped.append(key)
                continue
            else:
                subs = (properties[key],)
            made = item if path or key in self.normalized else self._own(key, item)
            for sub in subs:
                made = self.part(sub, made, (*path, key))
            if made is not item:
                changed[key] = made
        if not changed and not dropped:
            return value
        return {key: changed.get(key, item) for key, item in value.items() if key not in dropped}

    def _is_settled(self, schema: Any, item: Any) -> bool:
        """Answer without a closer look whether nothing can be folded; in doubt, no."""
        if not isinstance(schema, dict):
            return False
        traits = self.engine.tree.traits(schema)
        kind = type(item)
        return kind in traits.settled or (kind is str and item in traits.members)

    def _drops(self, schema: dict[str, Any], key: str, item: Any, path: Path) -> bool:
        """Leave out a null or an empty text that an optional parameter does not allow."""
        if not (item is None or item == "") or self.only_whole or key in schema.get("required", ()):
            return False
        if self.engine.fits(schema["properties"][key], item):
            return False
        self.changes.note((*path, key), "null_dropped" if item is None else "empty_dropped", item, None)
        return True

    def _extra(self, schema: dict[str, Any], key: str) -> Iterator[Any]:
        """Yield the schemas of a property that is not declared by name."""
        matched = False
        for pattern, sub in schema.get("patternProperties", {}).items():
            if self.engine.matches(pattern, key):
                matched = True
                yield sub
        if not matched:
            yield schema.get("additionalProperties")

    def _own(self, key: str, item: Any) -> Any:
        """Apply the tool's own normalizer of a parameter, once."""
        normalizer = self.naming.normalizers.get(key)
        if normalizer is None or self.only_whole:
            return item
        self.normalized.add(key)
        try:
            made = plain_value(normalizer(plain_value(item)))
        except Exception as error:
            reason = f"the tool's own normalizer failed with {type(error).__name__}; the tool was not called"
            self.changes.refuse((key,), "normalizer", reason)
            return item
        if is_same(made, item):
            return item
        self.changes.note((key,), "normalizer", item, made)
        return made

    def _array(self, schema: dict[str, Any], value: list[Any], path: Path) -> Any:
        head, tail = schema.get("prefixItems", ()), schema.get("items")
        if isinstance(tail, list):
            head, tail = tail, schema.get("additionalItems")
        if not head and not isinstance(tail, dict):
            return value
        out: list[Any] | None = None
        for index, item in enumerate(value):
            made = self.part(head[index] if index < len(head) else tail, item, (*path, index))
            if made is not item:
                out = list(value) if out is None else out
                out[index] = made
        return value if out is None else out

    # -- combinators

    def _combined(self, schema: dict[str, Any], value: Any, path: Path, known: frozenset[str] | None, hops: int) -> Any:
        for branch in schema.get("allOf", ()):
            value = self.part(branch, value, path, known, hops)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                value = self._union(schema[keyword], value, path, known, hops)
        if "if" in schema and ("then" in schema or "else" in schema):
            chosen = "then" if self.engine.fits(schema["if"], value) else "else"
            value = self.part(schema.get(chosen), value, path, known, hops)
        return value

    def _union(self, branches: list[Any], value: Any, path: Path, known: frozenset[str] | None, hops: int) -> Any:
        """Leave a value that fits a branch; else fold it by the one branch for which that makes it valid."""
        others = [branch for branch in branches if not (isinstance(branch, dict) and branch.get("type") == "null")]
        if len(others) == 1:
            return value if value is None else self.part(others[0], value, path, known, hops)
        fitting = [branch for branch in branches if self.engine.fits(branch, value)]
        if fitting:
            if len(fitting) > 1:
                return value
            trial = self._trial(only_whole=True)
            return self._adopt(trial, trial.part(fitting[0], value, path, known, hops))
        found: list[tuple[Folder, Any]] = []
        refused: Changes | None = None
        for branch in branches:
            trial = self._trial()
            made = trial.part(branch, value, path, known, hops)
            if trial.changes.problems:
                refused = refused or trial.changes
            elif made is not value and self.engine.fits(branch, made):
                found += [] if any(is_same(made, other) for _, other in found) else [(trial, made)]
        if len(found) == 1:
            return self._adopt(*found[0])
        if not found and refused is not None:
            self.changes.problems += refused.problems
        return value

    def _trial(self, *, only_whole: bool = False) -> Folder:
        trial = Folder(
            self.engine,
            self.naming,
            is_read=self.is_read,
            only_whole=only_whole or self.only_whole,
            budget=[_TRIALS] if self.budget is None else self.budget,
        )
        trial.normalized |= self.normalized
        return trial

    def _adopt(self, trial: Folder, value: Any) -> Any:
        self.changes.adopt(trial.changes)
        self.normalized |= trial.normalized
        return value
