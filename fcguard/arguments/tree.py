"""Reads a schema: what references and locations name, what objects declare, what plain types leave to fold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from fcguard.arguments.keywords import subschemas
from fcguard.arguments.names import NameIndex

__all__ = ["SchemaTree", "Traits"]

_SETTLED: Final = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
_COMBINING: Final = frozenset({"$ref", "allOf", "anyOf", "if", "oneOf"})
_FOLDING: Final = _COMBINING | {"const", "enum", "format"}
"""Keywords that may want something of a value that already is of the type."""


class Traits(NamedTuple):
    """What can be said about one subschema.

    Attributes:
        settled: Python types whose values it takes as they are, so that nothing in them can be folded.
        members: texts that it takes as they are.
        is_plain: whether it has no references and no combinators.
    """

    settled: frozenset[type]
    members: frozenset[str]
    is_plain: bool


class SchemaTree:
    """One schema and what is known of its parts; parts are the very objects within it, told apart by identity.

    Args:
        root: the schema.
        hides_siblings: whether keywords beside `$ref` are ignored, as up to draft 7.

    Attributes:
        has_unions: whether `anyOf` or `oneOf` occur.
        has_documents: whether a part has an `$id` of its own.
        indexes: names by spelling of each `properties`; filled by those who fold names.
    """

    __slots__ = ("_declared", "_ids", "_traits", "has_documents", "has_unions", "hides_siblings", "indexes", "root")

    def __init__(self, root: dict[str, Any], *, hides_siblings: bool) -> None:
        self.root, self.hides_siblings = root, hides_siblings
        self.indexes: dict[int, NameIndex] = {}
        self._declared: dict[int, frozenset[str]] = {}
        self._traits: dict[int, Traits] = {}
        self._ids: dict[int, str] | None = None
        nodes = list(self.nodes())
        self.has_unions = any("anyOf" in node or "oneOf" in node for node in nodes)
        self.has_documents = any("$id" in node or "id" in node for node in nodes[1:])

    def nodes(self) -> Iterator[dict[str, Any]]:
        """Yield every schema object, the root first."""
        todo = [self.root]
        while todo:
            node = todo.pop()
            yield node
            todo += [sub for _, _, _, sub in subschemas(node)]

    def at(self, location: Sequence[str | int], base: Any = None) -> Mapping[str, Any]:
        """Answer the schema object at an evaluation path (`$ref` steps are followed); empty if there is none.

        Args:
            location: the path.
            base: the subschema it starts from; None: the root.
        """
        node: Any = self.root if base is None else base
        step: Any
        for step in location:
            if step in ("$ref", "$dynamicRef", "$recursiveRef") and isinstance(node, dict):
                node = self.resolve(node[step]) if isinstance(node.get(step), str) else None
            elif (isinstance(node, dict) and step in node) or (isinstance(node, list) and isinstance(step, int)):
                node = node[step]
            else:
                return {}
        return node if isinstance(node, dict) else {}

    def resolve(self, reference: str) -> Any:
        """Answer the subschema that a local reference (`#/...` or `#anchor`) names; None if it is of another kind."""
        if reference in ("#", ""):
            return self.root
        if not reference.startswith("#/"):
            named = (node for node in self.nodes() if f"#{node.get('$anchor')}" == reference)
            return next(named, None)
        node: Any = self.root
        for step in map(_unescaped, reference[2:].split("/")):
            if isinstance(node, dict) and step in node:
                node = node[step]
            elif isinstance(node, list) and step.isdecimal() and int(step) < len(node):
                node = node[int(step)]
            else:
                return None
        return node

    def declared(self, schema: Any) -> frozenset[str]:
        """Answer every property name that an object schema declares, its references and combinators included."""
        found = self._declared.get(id(schema))
        if found is None:
            names: set[str] = set()
            self._collect(schema, names, set())
            found = self._declared[id(schema)] = frozenset(names)
        return found

    def traits(self, schema: dict[str, Any]) -> Traits:
        """Answer what can be said about a subschema without looking at a value."""
        found = self._traits.get(id(schema))
        if found is None:
            named = schema.get("type", ())
            types = (named,) if isinstance(named, str) else named
            settled = [] if not _FOLDING.isdisjoint(schema) else [_SETTLED[word] for word in types if word in _SETTLED]
            members = schema.get("enum", ()) if _FOLDING & schema.keys() == {"enum"} and "string" in types else ()
            found = self._traits[id(schema)] = Traits(
                frozenset(kind for kinds in settled for kind in kinds),
                frozenset(member for member in members if isinstance(member, str)),
                is_plain=_COMBINING.isdisjoint(schema),
            )
        return found

    def _collect(self, schema: Any, names: set[str], seen: set[int]) -> None:
        if not isinstance(schema, dict) or id(schema) in seen:
            return
        seen.add(id(schema))
        names.update(schema.get("properties", ()))
        branches = [branch for keyword in ("allOf", "anyOf", "oneOf") for branch in schema.get(keyword, ())]
        branches += [schema[keyword] for keyword in ("then", "else") if keyword in schema]
        if isinstance(schema.get("$ref"), str):
            branches.append(self.resolve(schema["$ref"]))
        for branch in branches:
            self._collect(branch, names, seen)

    def pointer(self, schema: dict[str, Any]) -> str:
        """Answer the JSON Pointer of a subschema of the root (the very object), percent-encoded as in a fragment."""
        if self._ids is None:
            self._ids = dict(_pointers(self.root, ""))
        return self._ids[id(schema)]


def _pointers(node: Any, pointer: str) -> Iterator[tuple[int, str]]:
    if isinstance(node, dict):
        yield id(node), pointer
        for key, sub in node.items():
            yield from _pointers(sub, f"{pointer}/{_escaped(key)}")
    elif isinstance(node, list):
        for index, sub in enumerate(node):
            yield from _pointers(sub, f"{pointer}/{index}")


def _escaped(step: str) -> str:
    return quote(step.replace("~", "~0").replace("/", "~1"), safe="~$", errors="surrogatepass")


def _unescaped(step: str) -> str:
    return unquote(step).replace("~1", "/").replace("~0", "~")
