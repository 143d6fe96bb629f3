"""Find the `Bound(...)` mark of a parameter wherever it is written; a mark that could not be kept is refused, never dropped."""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from inspect import Parameter, signature
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from fcguard.errors import ConfigurationError
from fcguard.model.context import Bound

__all__ = ["bound_mark", "bound_parameters"]


def bound_parameters(fn: Callable[..., Any], tool: str) -> dict[str, str]:
    """Answer which parameters of a function that comes with its own schema are marked, by name of the context's field.

    Raises:
        ConfigurationError: a mark cannot be kept, or an annotation that seems to hold one cannot be resolved.
    """
    try:
        parameters = signature(fn, eval_str=True).parameters.values()
    except Exception:  # an annotation may raise anything; as texts they can still be looked at
        try:
            parameters = signature(fn).parameters.values()
        except (TypeError, ValueError):  # a callable without a signature marks nothing
            return {}
        for parameter in parameters:
            if isinstance(parameter.annotation, str) and "Bound" in parameter.annotation:
                raise ConfigurationError(
                    f"tool {tool!r}: the annotation of {parameter.name!r} mentions Bound, but cannot be resolved; "
                    "import its names at module level, or write the option bound={...}"
                ) from None
    marks = ((parameter.name, bound_mark(parameter, tool)) for parameter in parameters)
    return {name: mark.name for name, mark in marks if mark is not None}


def bound_mark(parameter: Parameter, tool: str) -> Bound | None:
    """Answer what a parameter is bound to; None: nothing.

    Args:
        parameter: with its annotation resolved.
        tool: name of the tool, for messages.

    Raises:
        ConfigurationError: the mark is a default, lies where nothing fills it (in a list, in a model), or there are two.
    """
    where = f"tool {tool!r}: the parameter {parameter.name!r}"
    default = parameter.default
    if isinstance(default, FieldInfo):
        default = default.default
    if isinstance(default, Bound):
        raise ConfigurationError(
            f"{where} has Bound({default.name!r}) as its default, which binds nothing; "
            f"write {parameter.name}: Annotated[str, Bound({default.name!r})]"
        )
    marks = set(_marks(parameter.annotation, where))
    if len(marks) > 1:
        raise ConfigurationError(f"{where} is bound to {' and '.join(sorted(mark.name for mark in marks))}; keep one")
    mark = next(iter(marks), None)
    if mark is None and _holds_mark(parameter.annotation, set()):
        raise ConfigurationError(
            f"{where} holds a Bound(...) inside of its type, where nothing fills it; make it a parameter of its own"
        )
    return mark


def _marks(annotation: Any, where: str) -> Iterator[Bound]:
    """Yield the marks that hold for the whole parameter: of the annotation itself, or of one arm of its union."""
    annotation = _unfolded(annotation)
    origin = get_origin(annotation)
    if origin is Annotated:
        kind, *extras = get_args(annotation)
        if Bound in extras:
            raise ConfigurationError(f"{where} says Bound without a name; write Bound('tenant')")
        yield from (extra for extra in extras if isinstance(extra, Bound))
        yield from _marks(kind, where)
    elif origin in (Union, types.UnionType):
        for arm in get_args(annotation):
            yield from _marks(arm, where)


def _unfolded(annotation: Any) -> Any:
    """Answer what a `type` alias or a `NewType` stands for."""
    for _ in range(16):
        inner = getattr(annotation, "__value__", None) or getattr(annotation, "__supertype__", None)
        if inner is None or isinstance(annotation, BaseModel):
            break
        annotation = inner
    return annotation


def _holds_mark(annotation: Any, seen: set[int]) -> bool:
    annotation = _unfolded(annotation)
    if isinstance(annotation, Bound) or annotation is Bound:
        return True
    if id(annotation) in seen:
        return False
    seen.add(id(annotation))
    return any(_holds_mark(part, seen) for part in (*get_args(annotation), *_fields_of(annotation)))


def _fields_of(annotation: Any) -> tuple[Any, ...]:
    """Answer the annotations of the fields of a model, dataclass or typed dict."""
    if not isinstance(annotation, type):
        return ()
    if not (issubclass(annotation, BaseModel) or is_dataclass(annotation) or is_typeddict(annotation)):
        return ()
    try:
        return tuple(get_type_hints(annotation, include_extras=True).values())
    except Exception:  # names of a local scope: what the type itself says about them is all there is
        return tuple(extra for field in getattr(annotation, "model_fields", {}).values() for extra in field.metadata)
