"""Finds where a value violates its schema and by which keyword; bounded in time also for hostile values."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple

import jsonschema_rs as rs

from fcguard.arguments.engine import Engine, stand_in
from fcguard.arguments.records import Path

__all__ = ["Fault", "Locator"]

_LARGE: Final = 5_000
"""Nodes from which on only the first fault of a value is looked for: collecting costs about 10 us each."""
_CONTAINERS: Final = (dict, list)
_MOST_FAULTS: Final = 200


class Fault(NamedTuple):
    """One violated keyword.

    Attributes:
        path: where in the value.
        keyword: the JSON Schema keyword (`falseSchema` for a schema that is `false`).
        detail: what the validator says about it, by the names of jsonschema-rs.
        schema: the schema object that holds the keyword; empty if it cannot be told.
    """

    path: Path
    keyword: str
    detail: Mapping[str, Any]
    schema: Mapping[str, Any]


class Locator:
    """Locates faults for one schema.

    What is wrong within the branches of a union is not collected along with everything else, because that takes
    exponential time for nested unions; ask for the faults of a single branch with `of_branch`.

    Args:
        engine: the schema.

    Attributes:
        tree: what can be read off the schema.
    """

    __slots__ = ("_branches", "_engine", "_options", "_root", "tree")

    def __init__(self, engine: Engine) -> None:
        self._engine, self.tree = engine, engine.tree
        self._branches: dict[int, rs.Validator] = {}
        union = partial(_Union, engine)
        # a nested `$id` starts a document of its own, in which a union cannot be found again by its location
        shallow = engine.tree.has_unions and not engine.tree.has_documents
        self._options: dict[str, Any] = {"keywords": {"anyOf": union, "oneOf": union}} if shallow else {}
        self._root: rs.Validator | None = None if shallow else engine.validator

    def faults(self, value: Any) -> list[Fault]:
        """Collect what is wrong with a plain JSON value; only the first fault of a very large one.

        Returns:
            The faults; never none for a value that is not valid.
        """
        if self._root is None:
            self._root = self._engine.compile(self._engine.root, **self._options)
        found = self._collected(self._root, value, ())
        if not found and not self._engine.is_valid(value):
            return [Fault((), "undecided", {}, {})]
        return found

    def of_branch(self, schema: Any, value: Any, path: Path) -> list[Fault]:
        """Collect what is wrong with a part of a value by one subschema of the root (the very object).

        Args:
            schema: the subschema.
            value: the part.
            path: where the part stands; the paths of the faults start with it.
        """
        if not isinstance(schema, dict):
            return [] if schema else [Fault(path, "falseSchema", {}, {})]
        validator = self._branches.get(id(schema))
        if validator is None:
            validator = self._branches[id(schema)] = self._engine.compile_part(schema, **self._options)
        return self._collected(validator, value, path, schema)

    def _collected(self, validator: rs.Validator, value: Any, path: Path, base: Any = None) -> list[Fault]:
        try:
            errors = _errors(validator, value)
        except UnicodeEncodeError:
            errors = _errors(validator, stand_in(value))
        return [self._fault(error, path, base) for error in errors]

    def _fault(self, error: rs.ValidationError, path: Path, base: Any) -> Fault:
        location = list(error.evaluation_path[:-1])
        if base is not None and location[:1] == ["$ref"]:
            node = self._engine.tree.at(location[1:], base)
        else:
            node = self._engine.tree.at(location)
        keyword, detail = error.kind.name, error.kind.as_dict()
        if keyword == "falseSchema" and error.evaluation_path[-1:] in (["additionalProperties"], ["propertyNames"]):
            keyword = "additionalProperties"
        return Fault((*path, *error.instance_path), keyword, detail, node)


class _Union:
    """Stands in for `anyOf` and `oneOf` while faults are collected: one fault, without those of the branches."""

    def __init__(self, engine: Engine, parent: dict[str, Any], value: Any, path: list[str | int]) -> None:
        keyword = path[-1]
        self.engine = engine
        self.branches = engine.tree.at(path[:-1]).get(str(keyword), ())
        self.is_exclusive = keyword == "oneOf"

    def validate(self, instance: Any) -> None:
        fitting = sum(self.engine.fits(branch, instance) for branch in self.branches)
        if fitting == 0 or (self.is_exclusive and fitting > 1):
            raise ValueError(str(fitting))


def _errors(validator: rs.Validator, value: Any) -> list[rs.ValidationError]:
    if not _is_large(value):
        return list(islice(validator.iter_errors(value), _MOST_FAULTS))
    try:
        validator.validate(value)
    except rs.ValidationError as error:
        return [error]
    return []


def _is_large(value: Any) -> bool:
    left = _LARGE
    todo = [value]
    while todo:
        item = todo.pop()
        if isinstance(item, _CONTAINERS):
            left -= len(item)
            if left < 0:
                return True
            todo += item.values() if isinstance(item, dict) else item
    return False
