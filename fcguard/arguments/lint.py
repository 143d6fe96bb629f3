"""Mends the obvious faults of foreign schemas and reports them; other faults are reported or left to the validator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fcguard.arguments.engine import DRAFTS, NEVER, compiles
from fcguard.arguments.keywords import ANY, FOREIGN_TYPES, TYPES, subschemas
from fcguard.arguments.numerals import integer_from
from fcguard.arguments.records import Finding

__all__ = ["DEFAULT_DIALECT", "FINDING_CODES", "dialect_of", "mend"]

DEFAULT_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"

FINDING_CODES: Final[dict[str, str]] = {
    "unknown_type": "a type word that JSON Schema does not have; read as the word that is meant, else ignored",
    "enum_type_conflict": "texts in the enum of a number or flag; read as that type, else the type is ignored",
    "required_flag": "`required` within a property; moved to the list of its object",
    "required_repeated": "`required` names a property more than once",
    "required_undeclared": "`required` names a property that is not declared; calls must send it all the same",
    "missing_type": "no `type` at the root; read as `object`",
    "unknown_dialect": "a `$schema` that is not known; read as 2020-12",
    "draft4_exclusive": "`exclusiveMinimum` or `exclusiveMaximum` is a flag; read as in draft 4",
    "draft7_tuple": "`items` is a list in a 2020-12 schema; read as `prefixItems`",
    "null_keyword": "a keyword is null; ignored",
    "invalid_annotation": "a keyword that only describes has the wrong type; ignored",
    "nullable": "`nullable` is not JSON Schema; ignored",
    "pattern_invalid": "a pattern that is no regular expression; every text there is refused",
    "default_invalid": "a default that its own schema refuses; not used",
}
"""Code of a finding -> what it means and what is made of it."""

_DRAFT_4: Final = "http://json-schema.org/draft-04/schema"

_ANNOTATIONS: Final[dict[str, type]] = {
    "$comment": str,
    "deprecated": bool,
    "description": str,
    "examples": list,
    "format": str,
    "readOnly": bool,
    "title": str,
    "writeOnly": bool,
}

_Report = Callable[[str, str], None]


def dialect_of(schema: dict[str, Any], findings: list[Finding]) -> str:
    """Answer which draft a schema is written in, a key of `DRAFTS`; an unknown `$schema` is removed and reported."""
    named = schema.get("$schema")
    if named is None:
        return DEFAULT_DIALECT
    known = named.rstrip("#") if isinstance(named, str) else ""
    if known in DRAFTS:
        return known
    del schema["$schema"]
    findings.append(Finding("/$schema", "unknown_dialect", f"{named!r} is not a known draft; read as 2020-12"))
    return DEFAULT_DIALECT


def mend(schema: dict[str, Any], dialect: str) -> list[Finding]:
    """Mend a schema in place.

    Args:
        schema: a private copy, plain JSON.
        dialect: a key of `DRAFTS`.

    Returns:
        What was found, mended or not.
    """
    findings: list[Finding] = []
    if "type" not in schema and "$ref" not in schema:
        findings.append(Finding("", "missing_type", "the parameters have no 'type'; read as 'object'"))
        schema["type"] = "object"
    rules = [rule for rule, dialects in _RULES.items() if dialects is None or dialect in dialects]
    todo: list[tuple[str, dict[str, Any]]] = [("", schema)]
    while todo:
        pointer, node = todo.pop()

        def report(code: str, message: str, pointer: str = pointer) -> None:
            findings.append(Finding(pointer, code, message))

        for rule in rules:
            rule(node, report)
        for location, _, _, sub in subschemas(node):
            todo.append(("/".join([pointer, *(_step(part) for part in location)]), sub))
    return findings


def _step(part: str | int) -> str:
    return str(part).replace("~", "~0").replace("/", "~1")


def _mend_null(node: dict[str, Any], report: _Report) -> None:
    for keyword in [key for key, value in node.items() if value is None and key not in ("default", "const", "example")]:
        del node[keyword]
        report("null_keyword", f"{keyword!r} is null; ignored")


def _mend_annotations(node: dict[str, Any], report: _Report) -> None:
    """Keywords that only describe must not make a tool unusable."""
    for keyword, kind in _ANNOTATIONS.items():
        if keyword in node and not isinstance(node[keyword], kind):
            del node[keyword]
            report("invalid_annotation", f"{keyword!r} is not of the type it must have; ignored")


def _mend_type(node: dict[str, Any], report: _Report) -> None:
    words = node.get("type")
    if words is None or (isinstance(words, str) and words in TYPES):
        return
    listed = words if isinstance(words, list) else [words]
    if not listed or not all(isinstance(word, str) for word in listed):
        return
    mended: list[str] = []
    for word in listed:
        standard = word.lower() if word.lower() in TYPES else FOREIGN_TYPES.get(word.lower())
        meaning = "without a type" if standard in (None, ANY) else f"as {standard!r}"
        if word not in TYPES:
            report("unknown_type", f"{word!r} is not a JSON Schema type; read {meaning}")
        if standard is None or standard == ANY:
            del node["type"]
            return
        if standard not in mended:
            mended.append(standard)
    node["type"] = mended if isinstance(words, list) else mended[0]


def _mend_required(node: dict[str, Any], report: _Report) -> None:
    properties = node.get("properties")
    required = node.get("required")
    if isinstance(properties, dict):
        flagged = [
            name for name, sub in properties.items() if isinstance(sub, dict) and isinstance(sub.get("required"), bool)
        ]
        for name in flagged:
            report("required_flag", f"'required' stands within the property {name!r}; moved to the list of its object")
            if properties[name].pop("required"):
                required = node["required"] = [*(required if isinstance(required, list) else []), name]
    if isinstance(required, bool) and not isinstance(properties, dict):
        report("required_flag", "'required' is not a list; ignored")
        del node["required"]
    if not isinstance(required, list) or not all(isinstance(name, str) for name in required):
        return
    if len(set(required)) != len(required):
        node["required"] = required = list(dict.fromkeys(required))
        report("required_repeated", "'required' names a property more than once")
    if isinstance(properties, dict):
        for name in required:
            if name not in properties:
                report("required_undeclared", f"'required' names {name!r}, which is not declared")


def _mend_enum(node: dict[str, Any], report: _Report) -> None:
    """Texts in an enum of numbers or flags can never be met: read them as the type, or drop the type."""
    members, kind = node.get("enum"), node.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    if not isinstance(members, list) or not members or kind is None or "string" in kinds:
        return
    texts = [member for member in members if isinstance(member, str)]
    if not texts:
        return
    read = {member: _as_kind(member, kinds) for member in texts}
    if all(value is not None for value in read.values()):
        node["enum"] = [read[member] if isinstance(member, str) else member for member in members]
        report("enum_type_conflict", f"the type is {kind!r}, the enum holds texts; the texts are read as that type")
        return
    del node["type"]
    report("enum_type_conflict", f"the type is {kind!r}, the enum holds texts; the enum counts, the type is ignored")


def _as_kind(text: str, kinds: list[Any]) -> Any:
    if "integer" in kinds or "number" in kinds:
        return integer_from(text)
    return {"true": True, "false": False}.get(text.lower()) if "boolean" in kinds else None


def _mend_exclusive(node: dict[str, Any], report: _Report) -> None:
    for exclusive, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        flag = node.get(exclusive)
        if not isinstance(flag, bool):
            continue
        report("draft4_exclusive", f"{exclusive!r} is true or false, as in draft 4; read as in draft 4")
        del node[exclusive]
        if flag and bound in node:
            node[exclusive] = node.pop(bound)


def _mend_patterns(node: dict[str, Any], report: _Report) -> None:
    pattern = node.get("pattern")
    if isinstance(pattern, str) and not compiles(pattern):
        node["pattern"] = NEVER
        report(
            "pattern_invalid",
            f"the pattern {pattern!r} is not a regular expression (ECMA-262); every text is refused here",
        )
    named = node.get("patternProperties")
    if not isinstance(named, dict):
        return
    for pattern in [pattern for pattern in named if not compiles(pattern)]:
        del named[pattern]
        node["additionalProperties"] = False
        report(
            "pattern_invalid",
            f"{pattern!r} in 'patternProperties' is not a regular expression; only other declared names are accepted",
        )


def _mend_tuple(node: dict[str, Any], report: _Report) -> None:
    if isinstance(node.get("items"), list):
        report("draft7_tuple", "'items' is a list, as before 2020-12; read as 'prefixItems'")
        node["prefixItems"] = node.pop("items")
        if "additionalItems" in node:
            node["items"] = node.pop("additionalItems")


def _drop_content(node: dict[str, Any], report: _Report) -> None:
    """Content keywords describe; they do not assert, whatever a validator makes of them in draft 7."""
    node.pop("contentEncoding", None)
    node.pop("contentMediaType", None)
    node.pop("contentSchema", None)


def _note_nullable(node: dict[str, Any], report: _Report) -> None:
    if node.get("nullable") is True and isinstance(node.get("type"), str):
        report("nullable", f"'nullable' is not JSON Schema and is ignored; write 'type': [{node['type']!r}, 'null']")


_RULES: Final[dict[Callable[[dict[str, Any], _Report], None], frozenset[str] | None]] = {
    _mend_null: None,
    _mend_annotations: None,
    _mend_type: None,
    _mend_required: None,
    _mend_enum: None,
    _mend_exclusive: frozenset(DRAFTS) - {_DRAFT_4},
    _mend_patterns: None,
    _mend_tuple: frozenset({DEFAULT_DIALECT}),
    _drop_content: None,
    _note_nullable: None,
}
"""Rule -> the dialects it is for; None: all."""
