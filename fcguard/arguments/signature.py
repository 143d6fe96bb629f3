"""The JSON Schema of a Python function, and the way back: JSON arguments turned into what its annotations promise."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Final, get_args

from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticSerializationError

from fcguard.arguments.enum_literals import Members, literal_members, with_members
from fcguard.arguments.marks import bound_mark
from fcguard.errors import ConfigurationError
from fcguard.model.call_info import CallInfo
from fcguard.model.failure import Problem

__all__ = ["Converter", "Signature", "read_signature"]

_EMPTY: Final = inspect.Parameter.empty
_JSON_NATIVE: Final = frozenset(
    {
        "str",
        "int",
        "bool",
        "float",
        "none",
        "any",
        "literal",
        "nullable",
        "list",
        "dict",
        "union",
        "default",
        "typed-dict",
        "typed-dict-field",
    }
)


@dataclass(frozen=True, slots=True)
class Converter:
    """Turns JSON values into the annotated types (dates, models, enums, ...), parameter by parameter."""

    adapters: Mapping[str, TypeAdapter[Any]]
    factories: Mapping[str, FieldInfo]
    members: Mapping[str, Members]

    def __call__(self, arguments: dict[str, Any]) -> dict[str, Any]:
        """Answer the arguments with the annotated types and the defaults of `Field(...)`; changes and answers the given dict."""
        for name, adapter in self.adapters.items():
            if name in arguments:
                arguments[name] = _converted(adapter, arguments[name], self.members[name])
        for name, field in self.factories.items():
            if name not in arguments:
                arguments[name] = field.get_default(call_default_factory=True)
        return arguments

    def problems(self, arguments: Mapping[str, Any]) -> tuple[Problem, ...]:
        """Answer why the arguments cannot be turned (a validator of a model refuses, a number is no valid date, ...)."""
        found: list[Problem] = []
        for name, adapter in self.adapters.items():
            if name not in arguments:
                continue
            try:
                _converted(adapter, arguments[name], self.members[name])
            except ValidationError as error:
                for item in error.errors(include_url=False, include_context=False, include_input=False)[:20]:
                    path = ".".join([name, *(str(part) for part in item["loc"])])
                    found.append(Problem(path, item["type"], item["msg"]))
            except Exception as error:
                found.append(Problem(name, "conversion", f"cannot be used ({type(error).__name__})"))
        return tuple(found)


def _converted(adapter: TypeAdapter[Any], value: Any, members: Members) -> Any:
    """Turn one JSON value; strict models take some values (dates, enums) from JSON text only."""
    tried = value
    while True:
        try:
            return adapter.validate_python(tried)
        except ValidationError as error:
            put = with_members(tried, members, error) if members else None
        if put is not None:
            tried = put
        elif tried is value:
            return adapter.validate_json(json.dumps(value))
        else:  # text cannot carry the members; the JSON types were checked by the schema
            return adapter.validate_python(tried, strict=False)


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function's signature says.

    Attributes:
        parameters: JSON Schema of its arguments.
        names: names of the parameters a caller may give by position, in order.
        positional: the positional-only ones.
        bound: parameters that the host fills, by name of the context's field.
        info_parameter: parameter annotated `CallInfo`; None: none.
        convert: turns JSON arguments into the annotated types; None: nothing to turn.
    """

    parameters: dict[str, Any]
    names: tuple[str, ...]
    positional: tuple[str, ...]
    bound: dict[str, str]
    info_parameter: str | None
    convert: Converter | None


def read_signature(
    fn: Callable[..., Any], name: str, scope: Mapping[str, Any] | None = None, *, needs_schema: bool = True
) -> Signature:
    """Read a function's signature.

    Args:
        fn: function, method or callable object.
        name: name of the tool, for messages.
        needs_schema: whether to build `parameters`; without, they are empty (the tool comes with its own).
        scope: local names that string annotations may use (of the place where the function is defined).

    Raises:
        ConfigurationError: an annotation cannot be resolved or has no JSON Schema, or the function takes `*args`.
    """
    signature = _resolve(fn, name, scope)
    adapters: dict[str, TypeAdapter[Any]] = {}
    required: list[str] = []
    defaults: dict[str, Any] = {}
    names: list[str] = []
    positional: list[str] = []
    bound: dict[str, str] = {}
    info_parameter = None
    factories: dict[str, FieldInfo] = {}
    is_open = False
    for parameter in signature.parameters.values():
        annotation = parameter.annotation
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise ConfigurationError(
                f"tool {name!r} takes *{parameter.name}; a model can only name parameters: declare them one by one"
            )
        if parameter.kind is parameter.VAR_KEYWORD:
            is_open = True
            continue
        if annotation is CallInfo or CallInfo in get_args(annotation):
            info_parameter = parameter.name
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append(parameter.name)
        if parameter.kind is not parameter.KEYWORD_ONLY:
            names.append(parameter.name)
        mark = bound_mark(parameter, name)
        adapters[parameter.name] = _adapter(annotation, parameter, name)
        if mark is not None:
            bound[parameter.name] = mark.name
        if parameter.default is _EMPTY:
            required.append(parameter.name)
        elif not isinstance(parameter.default, FieldInfo):
            defaults[parameter.name] = parameter.default
        elif parameter.default.is_required():
            required.append(parameter.name)
        else:
            factories[parameter.name] = parameter.default
    schema = _schema(adapters, required, defaults, is_open, name) if needs_schema else {}
    converting = {key: adapter for key, adapter in adapters.items() if not _is_native(adapter.core_schema)}
    members = {key: literal_members(adapter.core_schema) for key, adapter in converting.items()}
    convert = Converter(converting, factories, members) if converting or factories else None
    return Signature(schema, tuple(names), tuple(positional), bound, info_parameter, convert)


def _resolve(fn: Callable[..., Any], name: str, scope: Mapping[str, Any] | None) -> inspect.Signature:
    try:
        return inspect.signature(fn, eval_str=True, locals=dict(scope) if scope else None)
    except NameError as error:
        raise ConfigurationError(
            f"tool {name!r}: the annotation {error.name!r} cannot be resolved; import it at module level, not under TYPE_CHECKING"
        ) from None
    except Exception as error:  # an annotation may raise anything
        raise ConfigurationError(
            f"tool {name!r}: its signature cannot be read ({error}); register it with a JSON Schema instead"
        ) from None


def _adapter(annotation: Any, parameter: inspect.Parameter, name: str) -> TypeAdapter[Any]:
    kind = Any if annotation is _EMPTY else annotation
    if isinstance(parameter.default, FieldInfo):
        kind = Annotated[kind, parameter.default]
    try:
        return TypeAdapter(kind)
    except (PydanticSchemaGenerationError, PydanticUserError) as error:
        raise ConfigurationError(
            f"tool {name!r}: the parameter {parameter.name!r} has a type that JSON cannot carry ({str(error).splitlines()[0]}); "
            "use a JSON type or a pydantic model, or register the tool with a JSON Schema"
        ) from None


def _schema(
    adapters: Mapping[str, TypeAdapter[Any]], required: list[str], defaults: Mapping[str, Any], is_open: bool, name: str
) -> dict[str, Any]:
    try:
        schemas, shared = TypeAdapter.json_schemas([(key, "validation", adapter) for key, adapter in adapters.items()])
    except (PydanticUserError, PydanticSerializationError) as error:
        raise ConfigurationError(
            f"tool {name!r}: a parameter has no JSON Schema ({error}); register it with a JSON Schema"
        ) from None
    properties: dict[str, Any] = {}
    for key in adapters:
        properties[key] = dict(schemas[key, "validation"])
        if key in defaults:
            kept = _json_default(adapters[key], defaults[key])
            if kept is not _EMPTY:
                properties[key]["default"] = kept
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        schema["required"] = required
    schema["additionalProperties"] = is_open
    if shared:
        schema["$defs"] = shared["$defs"]
    return schema


def _json_default(adapter: TypeAdapter[Any], default: Any) -> Any:
    """Answer a default as JSON; one that is no JSON value stays the function's own business."""
    try:
        return adapter.dump_python(default, mode="json", warnings="error")
    except Exception:
        return _EMPTY


def _is_native(schema: Any) -> bool:
    if isinstance(schema, Mapping):
        kind = schema.get("type")
        if isinstance(kind, str) and kind not in _JSON_NATIVE:
            return False
        if kind == "literal":
            return not any(isinstance(item, (Enum, bytes)) for item in schema.get("expected", ()))
        if any(schema.get(change) for change in ("strip_whitespace", "to_lower", "to_upper")):
            return False
        nested = [schema.get(key) for key in ("schema", "items_schema", "keys_schema", "values_schema", "choices")]
        nested += (schema.get("fields") or {}).values()
        return all(_is_native(item) for item in nested if item is not None)
    if isinstance(schema, (list, tuple)):
        return all(_is_native(item) for item in schema)
    return True
