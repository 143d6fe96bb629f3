"""Fills in the defaults of a schema, last of all and recorded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from fcguard.arguments.engine import Engine
from fcguard.arguments.fold import Folder, Naming
from fcguard.arguments.records import Finding, Fold, Path, dotted

__all__ = ["Defaults"]

_HOPS: Final = 32
_UNUSABLE: Final = object()
_PLAIN: Final = (str, int, float, bool, type(None))


class Defaults:
    """The defaults of one schema.

    A default that its own schema refuses is not used. Defaults within the branches of a real union are not used either:
    which branch is meant is for the tool to see.

    Attributes:
        flat: parameter, default and fold, if all defaults are plain values of root parameters; None: walk the schema.
    """

    __slots__ = ("_engine", "_known", "flat")

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._known: dict[int, Any] = {}
        self.flat = self._flat()

    def _flat(self) -> tuple[tuple[str, Any, Fold], ...] | None:
        root = self._engine.root
        found: list[tuple[str, Any, Fold]] = []
        direct = root.get("properties", {})
        for node in self._engine.tree.nodes():
            if "default" in node and not any(node is sub for sub in direct.values()):
                return None
        for name, sub in direct.items():
            value = self._usable(sub)
            if value is _UNUSABLE:
                continue
            if not isinstance(value, _PLAIN):
                return None
            found.append((name, value, Fold(name, "default", None, value)))
        return tuple(found)

    def fill(self, value: dict[str, Any]) -> tuple[dict[str, Any], list[Fold]]:
        """Answer a valid object with the defaults that it lacks; the same object if filling would make it invalid."""
        if self.flat == ():
            return value, []
        folds: list[Fold] = []
        filled = self._filled(self._engine.root, value, (), folds, 0)
        return (filled, folds) if folds and self._engine.is_valid(filled) else (value, [])

    def findings(self) -> Iterator[Finding]:
        """Yield a finding for each default that cannot be used."""
        for node in self._engine.tree.nodes():
            if "default" in node and self._usable(node) is _UNUSABLE:
                yield Finding(
                    self._engine.tree.pointer(node),
                    "default_invalid",
                    f"the default {node['default']!r} is not valid; it is not used",
                )

    def _usable(self, schema: Any) -> Any:
        if not isinstance(schema, dict) or "default" not in schema:
            return _UNUSABLE
        found = self._known.get(id(schema))
        if found is None:
            value = schema["default"]
            if self._engine.fits(schema, value):
                folder = Folder(self._engine, Naming(), only_whole=True)
                found = folder.part(schema, value, ("",))
            else:
                found = _UNUSABLE
            self._known[id(schema)] = [found]
            return found
        return found[0]

    def _filled(self, schema: Any, value: Any, path: Path, folds: list[Fold], hops: int) -> Any:
        if not isinstance(schema, dict) or hops > _HOPS:
            return value
        if isinstance(schema.get("$ref"), str):
            value = self._filled(self._engine.tree.resolve(schema["$ref"]), value, path, folds, hops + 1)
            if self._engine.tree.hides_siblings:
                return value
        if isinstance(value, dict):
            value = self._object(schema, value, path, folds)
        elif isinstance(value, list):
            items = schema.get("items")
            value = [self._filled(items, item, (*path, index), folds, 0) for index, item in enumerate(value)]
        for branch in schema.get("allOf", ()):
            value = self._filled(branch, value, path, folds, hops + 1)
        for keyword in ("anyOf", "oneOf"):
            others = [
                sub for sub in schema.get(keyword, ()) if not (isinstance(sub, dict) and sub.get("type") == "null")
            ]
            if len(others) == 1 and value is not None:
                value = self._filled(others[0], value, path, folds, hops + 1)
        return value

    def _object(self, schema: dict[str, Any], value: dict[str, Any], path: Path, folds: list[Fold]) -> dict[str, Any]:
        made = dict(value)
        for name, sub in schema.get("properties", {}).items():
            if name not in made:
                default = self._usable(sub)
                if default is _UNUSABLE:
                    continue
                made[name] = _copied(default)
                folds.append(Fold(dotted((*path, name)), "default", None, _copied(default)))
            if isinstance(made[name], dict | list):
                made[name] = self._filled(sub, made[name], (*path, name), folds, 0)
        return made


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list) else value
