"""Words the faults of arguments for a model: what is expected, what came instead, and what to send."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fcguard.arguments.arms import at, pick
from fcguard.arguments.engine import NEVER
from fcguard.arguments.faults import Fault, Locator
from fcguard.arguments.names import close_names
from fcguard.arguments.records import Path, json_text, place, shortened
from fcguard.arguments.scalars import types_of
from fcguard.model.failure import Problem
from fcguard.model.secrets import is_secret_name

__all__ = ["MAX_PROBLEMS", "Speaker", "listed"]

MAX_PROBLEMS: Final = 20
"""Most problems that are worded; the rest is counted."""
_MOST_NAMES: Final = 500
"""Most declared names among which a similar one is looked for."""
_CUT: Final = 100
_LISTED: Final = 30
"""Most allowed values or names that a message lists."""

_TYPES: Final = {
    "string": "a string",
    "integer": "an integer",
    "number": "a number",
    "boolean": "true or false",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
_FORMATS: Final = {
    "date": "a date such as 2026-01-31 (YYYY-MM-DD)",
    "date-time": "a date and time with offset, such as 2026-01-31T09:30:00Z or 2026-01-31T09:30:00+02:00",
    "time": "a time with offset, such as 09:30:00Z",
    "duration": "a duration such as P3DT4H30M",
    "email": "an e-mail address",
    "uri": "a complete URI such as https://example.com/path",
    "uuid": "a UUID such as 123e4567-e89b-12d3-a456-426614174000",
    "ipv4": "an IPv4 address such as 192.0.2.1",
    "ipv6": "an IPv6 address such as 2001:db8::1",
    "hostname": "a host name",
}


@dataclass(frozen=True, slots=True)
class Speaker:
    """Words faults for one schema.

    Attributes:
        locator: finds the faults of single branches.
        secret: names of properties whose values are never repeated, beside those whose name says it.
    """

    locator: Locator
    secret: Collection[str]

    def problems(self, faults: Collection[Fault], value: Any) -> list[Problem]:
        """Word faults of a value, the same thing only once."""
        worded: dict[tuple[str, str], Problem] = {}
        for fault in faults:
            for problem in self.worded(fault, value):
                worded.setdefault((problem.path, problem.message), problem)
        return list(worded.values())

    def worded(self, fault: Fault, value: Any) -> list[Problem]:
        """Word one fault; several problems where a fault names several properties."""
        several = _SEVERAL.get(fault.keyword)
        if several is not None:
            return several(self, fault, value)
        message = _MESSAGES.get(fault.keyword)
        text = f"breaks the rule {fault.keyword!r} of its schema" if message is None else message(fault)
        return [Problem(place(fault.path), fault.keyword, text + self._got(fault, value) + self._meant(fault, value))]

    def is_secret(self, path: Path) -> bool:
        """Answer whether what stands at a path must not be repeated."""
        return any(isinstance(part, str) and (part in self.secret or is_secret_name(part)) for part in path)

    def shown(self, path: Path, value: Any) -> str:
        """Describe a value, without content where it is secret or large."""
        if isinstance(value, dict):
            return "an object"
        if isinstance(value, list):
            return f"an array of {len(value)}"
        if self.is_secret(path):
            return f"{_TYPES[_type_of(value)]} that is not shown"
        return shortened(repr(value[:_CUT]) if isinstance(value, str) else json_text(value))

    def _meant(self, fault: Fault, value: Any) -> str:
        """Suggest members of an enum that look like the text that was sent."""
        sent = at(value, fault.path) if fault.keyword == "enum" else None
        if not isinstance(sent, str) or self.is_secret(fault.path):
            return ""
        options = [option for option in fault.schema.get("enum", ()) if isinstance(option, str)]
        close = close_names(sent, options[:_MOST_NAMES])
        return f"; did you mean {' or '.join(map(repr, close))}?" if close else ""

    def _got(self, fault: Fault, value: Any) -> str:
        if fault.keyword in _WITHOUT_VALUE:
            return ""
        return f"; got {self.shown(fault.path, at(value, fault.path))}"


def _type_of(value: Any) -> str:
    if value is None:
        return "null"
    kinds = ((bool, "boolean"), (int, "integer"), (float, "number"), (str, "string"), (list, "array"))
    return next((name for kind, name in kinds if isinstance(value, kind)), "object")


def listed(values: Collection[Any]) -> str:
    """List allowed values, in JSON, not too many."""
    texts = [shortened(json_text(value)) for value in list(values)[:_LISTED]]
    more = f" and {len(values) - _LISTED} more" if len(values) > _LISTED else ""
    return ", ".join(texts) + more


# -- one message for each keyword


def _type(fault: Fault) -> str:
    types = types_of(fault.schema) or tuple(fault.detail.get("types", ()))
    text = "must be " + " or ".join(_TYPES.get(name, name) for name in types)
    if "array" in types:
        text += ', sent as a JSON array such as ["a", "b"]'
    elif "integer" in types or "number" in types:
        text += ", in plain digits without separators or units" + _noted(fault.schema)
    return text


def _noted(schema: Mapping[str, Any]) -> str:
    description = schema.get("description")
    return (
        f" ({shortened(' '.join(description.split()))})" if isinstance(description, str) and description.strip() else ""
    )


def _bounds(fault: Fault) -> str:
    schema = fault.schema
    lower = [f"at least {schema['minimum']}"] if "minimum" in schema else []
    lower += [f"more than {schema['exclusiveMinimum']}"] if "exclusiveMinimum" in schema else []
    upper = [f"at most {schema['maximum']}"] if "maximum" in schema else []
    upper += [f"less than {schema['exclusiveMaximum']}"] if "exclusiveMaximum" in schema else []
    return f"must be {' and '.join(lower + upper) or 'within its limits'}{_noted(schema)}"


def _length(fault: Fault) -> str:
    schema = fault.schema
    lower, upper = schema.get("minLength"), schema.get("maxLength")
    if upper is None:
        return "must not be empty" if lower == 1 else f"must have at least {lower} characters"
    return f"must have at most {upper} characters" if lower is None else f"must have {lower} to {upper} characters"


def _items(fault: Fault) -> str:
    lower, upper = fault.schema.get("minItems"), fault.schema.get("maxItems")
    if upper is None:
        return f"must have at least {lower} item{'s' if lower != 1 else ''}"
    return f"must have at most {upper} items" if lower is None else f"must have {lower} to {upper} items"


def _size(fault: Fault) -> str:
    lower, upper = fault.schema.get("minProperties"), fault.schema.get("maxProperties")
    limits = [f"at least {lower}"] * (lower is not None) + [f"at most {upper}"] * (upper is not None)
    return f"must have {' and '.join(limits)} properties"


def _enum(fault: Fault) -> str:
    return f"must be one of {listed(fault.schema.get('enum', fault.detail.get('options', ())))}"


def _pattern(fault: Fault) -> str:
    pattern = str(fault.detail.get("pattern") or fault.schema.get("pattern"))
    if pattern == NEVER:
        return (
            "cannot be accepted, because the pattern in this tool's schema is not valid; leave it out or tell the user"
        )
    if "error" in fault.detail:
        shown = shortened(pattern)
        return f"cannot be checked against the pattern {shown} in reasonable time; send a shorter or simpler text"
    return f"must match the pattern {shortened(pattern)}"


def _format(fault: Fault) -> str:
    name = str(fault.detail.get("format"))
    return f"must be {_FORMATS.get(name, f'of the format {name!r}')}"


_MESSAGES: Final[Mapping[str, Callable[[Fault], str]]] = {
    "type": _type,
    "enum": _enum,
    "const": lambda fault: f"must be {shortened(json_text(fault.detail.get('expected_value')))}",
    **dict.fromkeys(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"), _bounds),
    **dict.fromkeys(("minLength", "maxLength"), _length),
    **dict.fromkeys(("minItems", "maxItems"), _items),
    **dict.fromkeys(("minProperties", "maxProperties"), _size),
    "pattern": _pattern,
    "format": _format,
    "multipleOf": lambda fault: f"must be a multiple of {fault.detail.get('multiple_of')}",
    "uniqueItems": lambda fault: "must not hold the same item twice",
    "contains": lambda fault: "does not hold the items that it must hold, or too many of them",
    "not": lambda fault: "is of a form that is not allowed here",
    "falseSchema": lambda fault: "must not be given; leave it out",
    "additionalItems": lambda fault: f"must not have more than {fault.detail.get('limit')} items",
    "unevaluatedItems": lambda fault: "has items that are not allowed",
    "undecided": lambda fault: "the arguments cannot be checked in reasonable time; send shorter or simpler texts",
}
"""Keyword -> its message, without what was got."""

_WITHOUT_VALUE: Final = frozenset(
    {"falseSchema", "uniqueItems", "contains", "not", "additionalItems", "undecided", "unevaluatedItems"}
)


# -- faults that name properties


def _required(speaker: Speaker, fault: Fault, value: Any) -> list[Problem]:
    name = fault.detail["property"]
    schema = fault.schema.get("properties", {}).get(name, {})
    kind = " or ".join(_TYPES.get(word, word) for word in types_of(schema)) if isinstance(schema, dict) else ""
    note = _noted(schema) if isinstance(schema, dict) else ""
    dependent = fault.schema.get("dependentRequired") or fault.schema.get("dependencies") or {}
    causes = [
        key
        for key, names in dependent.items()
        if isinstance(names, list) and name in names and key in at(value, fault.path)
    ]
    reason = (
        f"is required when {causes[0]!r} is given"
        if causes and name not in fault.schema.get("required", ())
        else "is required and missing"
    )
    instance = at(value, fault.path)
    declared = fault.schema.get("properties")
    undeclared = [key for key in instance if key not in declared] if isinstance(declared, dict) else []
    close = close_names(name, undeclared)
    hint = f"; {close[0]!r} was sent, which is not declared" if close else ""
    text = f"{reason}{f'; send {kind}' if kind else ''}{note}{hint}"
    return [Problem(place((*fault.path, name)), "required", text)]


def _unknown(speaker: Speaker, fault: Fault, value: Any) -> list[Problem]:
    known = speaker.locator.tree.declared(fault.schema) or frozenset(fault.schema.get("properties", ()))
    given = at(value, fault.path)
    free = [name for name in known if name not in given]
    problems = []
    unexpected = fault.detail.get("unexpected", list(given))
    for name in unexpected[: MAX_PROBLEMS + 1]:
        close = close_names(name, free) if len(free) <= _MOST_NAMES else []
        hint = f"; did you mean {' or '.join(repr(item) for item in close)}?" if close else ""
        allowed = f"; allowed: {', '.join(sorted(known)[:_LISTED])}" if known else "; nothing is allowed here"
        problems.append(Problem(place((*fault.path, name)), fault.keyword, f"is not a known parameter{hint}{allowed}"))
    return problems


def _property_names(speaker: Speaker, fault: Fault, value: Any) -> list[Problem]:
    return [Problem(place(fault.path), "propertyNames", "has a property whose name is not allowed")]


def _branches(speaker: Speaker, fault: Fault, value: Any) -> list[Problem]:
    """Word a union: the branch that was meant if that can be told, else what the branches have in common."""
    branches = fault.schema.get(fault.keyword, ())
    instance = at(value, fault.path)
    arms = [speaker.locator.of_branch(branch, instance, fault.path) for branch in branches]
    picked = pick(speaker.locator.tree, fault, arms, instance)
    if picked is not None:
        return [problem for inner in picked for problem in speaker.worded(inner, value)]
    text = "fits none of the allowed forms"
    if not all(arms):
        text = "fits more than one of the allowed forms; leave out what belongs to the others"
    elif arms and all(inner.keyword == "required" for arm in arms for inner in arm):
        needed = [" and ".join(repr(inner.detail["property"]) for inner in arm) for arm in arms]
        text = f"needs {'at least' if fault.keyword == 'anyOf' else 'exactly'} one of {' or '.join(needed)}"
    return [Problem(place(fault.path), fault.keyword, text)]


_SEVERAL: Final[Mapping[str, Callable[[Speaker, Fault, Any], list[Problem]]]] = {
    "required": _required,
    "additionalProperties": _unknown,
    "unevaluatedProperties": _unknown,
    "propertyNames": _property_names,
    "anyOf": _branches,
    "oneOf": _branches,
}
