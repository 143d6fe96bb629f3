"""Everything that is prepared once for a schema, at its first use."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import jsonschema_rs as rs

from fcguard.arguments.defaults import Defaults
from fcguard.arguments.engine import DRAFTS, Engine, FormatCheck
from fcguard.arguments.explain import Speaker
from fcguard.arguments.faults import Locator
from fcguard.arguments.fold import Naming
from fcguard.arguments.keywords import subschemas
from fcguard.arguments.lint import dialect_of, mend
from fcguard.arguments.names import is_reserved, spelling
from fcguard.arguments.records import Finding, shortened
from fcguard.arguments.tree import SchemaTree
from fcguard.errors import SchemaError
from fcguard.model.secrets import secret_properties

__all__ = ["Compiled", "Options", "compile_schema"]

_REF_DRAFTS: Final = ("$ref", "$dynamicRef", "$recursiveRef")


@dataclass(frozen=True, slots=True)
class Options:
    """What is declared beside the schema; see `ArgumentSchema.compile`."""

    closed: bool = False
    naming: Naming = field(default_factory=Naming)
    hidden: frozenset[str] = frozenset()
    secret: frozenset[str] = frozenset()
    formats: Mapping[str, FormatCheck] | None = None


@dataclass(frozen=True, slots=True)
class Compiled:
    """A schema made ready.

    Attributes:
        engine: decides.
        locator: finds faults.
        speaker: words faults.
        naming: aliases and normalizers.
        defaults: what to fill in.
        declared: names of the parameters.
        closed: whether a parameter that is not declared is always invalid.
        hidden: spellings of the parameters that the host fills.
        reserved: reserved names that the schema declares.
        findings: faults of the schema, those of its defaults apart.
    """

    engine: Engine
    locator: Locator
    speaker: Speaker
    naming: Naming
    defaults: Defaults
    declared: frozenset[str]
    closed: bool
    hidden: frozenset[str]
    reserved: frozenset[str]
    findings: tuple[Finding, ...]


def compile_schema(text: str, options: Options) -> Compiled:
    """Mend, check and compile a schema.

    Args:
        text: the schema as JSON.
        options: what is declared beside it.

    Raises:
        SchemaError: it cannot be used; the message says how to mend it.
    """
    root = json.loads(text)
    findings: list[Finding] = []
    dialect = dialect_of(root, findings)
    findings += mend(root, dialect)
    _check_root(root)
    _hide(root, options.hidden)
    closed = options.closed or root.get("additionalProperties") is False
    if options.closed:
        _close(root, dialect)
    try:
        rs.meta.validate(root)
        engine = Engine(root, dialect, options.formats)
    except (rs.ValidationError, rs.ReferencingError, ValueError, RecursionError) as error:
        raise _schema_error(error, root) from None
    defaults, locator = Defaults(engine), Locator(engine)
    declared = engine.tree.declared(root)
    return Compiled(
        engine=engine,
        locator=locator,
        speaker=Speaker(locator, secret_properties(root, options.secret)),
        naming=options.naming,
        defaults=defaults,
        declared=declared,
        closed=closed and not root.get("patternProperties"),
        hidden=frozenset(spelling(name) for name in options.hidden),
        reserved=_reserved(engine.tree),
        findings=tuple(findings),
    )


def _check_root(root: dict[str, Any]) -> None:
    kind = root.get("type")
    if kind is not None and kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise SchemaError(
            f"the parameters must be an object, not {kind!r}; write {{'type': 'object', 'properties': {{...}}}}"
        )


def _hide(root: dict[str, Any], hidden: Collection[str]) -> None:
    properties, required = root.get("properties"), root.get("required")
    if isinstance(properties, dict):
        root["properties"] = {name: sub for name, sub in properties.items() if name not in hidden}
    if hidden and isinstance(required, list):
        root["required"] = [name for name in required if name not in hidden]


def _close(root: dict[str, Any], dialect: str) -> None:
    """Refuse parameters that are not declared; those of root-level branches are, where the draft can say so."""
    branched = any(keyword in root for keyword in ("$ref", "allOf", "anyOf", "oneOf", "if", "dependentSchemas"))
    root["unevaluatedProperties" if branched and not DRAFTS[dialect][2] else "additionalProperties"] = False


def _reserved(tree: SchemaTree) -> frozenset[str]:
    return frozenset(name for node in tree.nodes() for name in node.get("properties", ()) if is_reserved(name))


def _schema_error(error: Exception, root: dict[str, Any]) -> SchemaError:
    if not isinstance(error, rs.ValidationError):
        return SchemaError(f"the schema cannot be compiled: {shortened(str(error), 200)}")
    if error.kind.name == "$ref":
        return SchemaError(_reference_fault(root, error))
    where = "/".join(map(str, error.instance_path)) or "the root"
    what = shortened(error.message.splitlines()[0], 200)
    return SchemaError(
        f"the schema is not valid at {where}: {what}; write it as JSON Schema 2020-12 or declare its '$schema'"
    )


def _reference_fault(root: dict[str, Any], error: rs.ValidationError) -> str:
    what = shortened(error.message.splitlines()[0], 200)
    todo = [root]
    while todo:
        node = todo.pop()
        todo += [sub for _, _, _, sub in subschemas(node)]
        for keyword in _REF_DRAFTS:
            reference = node.get(keyword)
            if isinstance(reference, str) and not reference.startswith("#"):
                return (
                    f"the schema refers to {shortened(reference)!r}; only references within it ('#/$defs/...') are "
                    "followed: inline what it points to"
                )
    return f"the schema holds a reference that leads nowhere ({what}); add what it points to, or mend the pointer"
