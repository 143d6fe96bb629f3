"""Turn a callable and its options into a prepared tool, and refuse what cannot work, with the fix in the message."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final, ParamSpec, Protocol, TypeVar, get_args, overload

from fcguard.arguments import ArgumentSchema
from fcguard.arguments.marks import bound_parameters
from fcguard.arguments.signature import read_signature
from fcguard.config import Collaborator, Prepared, is_coroutine_callable
from fcguard.errors import ColourError, ConfigurationError
from fcguard.model.context import BOUND_NAMES
from fcguard.model.failure import Effect
from fcguard.model.result import ToolResult
from fcguard.model.tool import ConfirmBy, Fallback, Retry, Tool
from fcguard.recovery.own_plans import check_own_plans
from fcguard.rules.base import check_rule, is_async, to_rule
from fcguard.tool_options import as_tuples, check_options, frozen_tool

__all__ = ["GuardParts", "ToolDecorator", "by_name", "check_classifiers", "prepare_function", "prepare_registered"]

P = ParamSpec("P")
R = TypeVar("R")

_NAME: Final = re.compile(r"^[A-Za-z_][A-Za-z0-9_.:/-]{0,127}$")
_OPTIONS: Final = frozenset(field.name for field in fields(Tool)) - {"fn", "parameters"}
_EFFECTS: Final = get_args(Effect)
_COMPOSING: Final = frozenset(
    {"$ref", "$dynamicRef", "allOf", "anyOf", "oneOf", "if", "patternProperties", "dependentSchemas", "dependencies"}
)
"""Keywords of a schema that may name further parameters."""


class GuardParts:
    """What a guard adds to each of its tools: rules that go first and constraints."""

    __slots__ = ("constraints", "first_rules", "rules")

    def __init__(self, first_rules: Sequence[Any], rules: Sequence[Any], constraints: Sequence[Any]) -> None:
        self.first_rules, self.rules, self.constraints = tuple(first_rules), tuple(rules), tuple(constraints)
        for rule in self.rules:
            to_rule(rule, "Guard")
        for constraint in self.constraints:
            check_constraint(constraint, "Guard")


def check_classifiers(classifiers: Sequence[Any]) -> tuple[Any, ...]:
    """Answer the classifiers of a guard.

    Raises:
        ConfigurationError: one of them cannot be called.
        ColourError: one of them is async.
    """
    for classifier in classifiers:
        if not callable(classifier):
            raise ConfigurationError(
                f"Guard: {classifier!r} is no classifier; give a callable (exception_or_result, call) -> ErrorType | None"
            )
        if is_coroutine_callable(classifier):
            raise ColourError(f"Guard: the classifier {classifier!r} is async; classifiers are always sync")
    return tuple(classifiers)


def check_constraint(constraint: Any, owner: str) -> None:
    """Refuse what cannot be a constraint.

    Raises:
        ConfigurationError: it is a class, or it can neither be asked nor called.
    """
    if hasattr(constraint, "admit"):
        is_usable = callable(constraint.admit) and callable(getattr(constraint, "settle", None))
    else:
        is_usable = callable(constraint)
    if isinstance(constraint, type) or not is_usable:
        raise ConfigurationError(
            f"{owner}: {constraint!r} is no constraint; give an object with admit(call, now) and settle(call, attempt, now), "
            "or a callable (call) -> None | Violation"
        )


def prepare_function(
    fn: Callable[..., Any], options: Mapping[str, Any], scope: Mapping[str, Any], parts: GuardParts
) -> Prepared:
    """Make a tool of a function from its signature.

    Raises:
        ConfigurationError: an option is unknown or wrong, or the signature cannot be used.
    """
    _refuse_unknown(options)
    if isinstance(fn, (classmethod, property)):
        raise ConfigurationError(
            f"{fn!r} cannot be a tool; decorate the plain function, or give guard.tool(...) the bound method"
        )
    governed = getattr(fn, "__fcguard_tool__", None)
    if governed is not None:
        raise ConfigurationError(
            f"{governed.name!r} is governed already; leave the method undecorated in its class and register the bound method: "
            "guard.tool(instance.method)"
        )
    if not callable(fn):
        raise ConfigurationError(f"guard.tool was given {fn!r}; decorate a function, method or callable object")
    name = options.get("name") or _name_of(fn)
    receiver = _takes_receiver(fn)
    signature = read_signature(functools.partial(fn, None) if receiver else fn, name, scope)
    given = as_tuples({key: value for key, value in options.items() if key != "name"})
    bound = {**signature.bound, **given.pop("bound", {})}
    if given.get("description") is None:
        given["description"] = inspect.getdoc(fn) or None
    if isinstance(fn, functools.partial) and "description" not in options:
        given["description"] = inspect.getdoc(fn.func) or None
    if receiver and given.get("business_key") is not None:
        raise ConfigurationError(
            f"tool {name!r} is a method: its instance is no identity that another process could know, so business_key cannot tell "
            "two instances apart; make what identifies the instance a parameter of a plain function"
        )
    tool = Tool(name=name, parameters=signature.parameters, fn=fn, bound=bound, **given)
    prepared = prepare_tool(tool, parts)
    prepared.convert = signature.convert
    prepared.info_parameter = signature.info_parameter
    prepared.positional = signature.positional
    prepared.names = signature.names
    prepared.takes_receiver = receiver
    return prepared


def prepare_tool(tool: Tool, parts: GuardParts) -> Prepared:
    """Check a tool and prepare it for a guard.

    Raises:
        ConfigurationError: something about it cannot work.
        SchemaError: its parameters are no usable JSON Schema.
        ColourError: an async collaborator on a sync tool.
    """
    _check_shape(tool)
    colour = is_coroutine_callable(tool.fn)
    rules = (*parts.first_rules, *parts.rules, *tool.rules)
    for constraint in tool.constraints:
        check_constraint(constraint, f"tool {tool.name!r}")
    for rule in tool.rules:
        check_rule(rule, tool.parameters)
    _check_colours(tool, (*rules, *parts.constraints), colour)
    is_generator = _is_generator(tool.fn)
    if is_generator and tool.max_items is None:
        raise ConfigurationError(f"tool {tool.name!r} is a generator; say how many items it may yield: max_items=1000")
    prepared = Prepared(
        tool,
        colour,
        tuple(Collaborator.of_rule(rule) for rule in rules),
        (*parts.constraints, *tool.constraints),
        is_generator=is_generator,
    )
    _check_parameters(tool, prepared.schema)
    return prepared


def _is_generator(fn: Any) -> bool:
    while isinstance(fn, functools.partial):
        fn = fn.func
    if not inspect.isroutine(fn):
        fn = type(fn).__call__
    return inspect.isgeneratorfunction(fn) or inspect.isasyncgenfunction(fn)


def prepare_registered(tool: Tool, parts: GuardParts) -> Prepared:
    """Prepare a tool that comes with its own schema; annotations of its function, where they can be read, are kept as promises."""
    tool = frozen_tool(tool)
    if callable(tool.fn):
        marked = bound_parameters(tool.fn, str(tool.name))
        if marked:
            tool = replace(tool, bound={**marked, **tool.bound})
    prepared = prepare_tool(tool, parts)
    try:
        signature = read_signature(tool.fn, tool.name, needs_schema=False)
    except ConfigurationError:  # the schema is what counts; without readable annotations the function gets JSON values
        return prepared
    prepared.convert = signature.convert
    prepared.info_parameter = signature.info_parameter
    prepared.positional = signature.positional
    prepared.names = signature.names
    return prepared


def _refuse_unknown(options: Mapping[str, Any]) -> None:
    for option in options:
        if option not in _OPTIONS:
            close = difflib.get_close_matches(option, _OPTIONS, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else f"; known options: {', '.join(sorted(_OPTIONS))}"
            raise ConfigurationError(f"guard.tool has no option {option!r}{hint}")


def _name_of(fn: Any) -> str:
    target = fn.func if isinstance(fn, functools.partial) else fn
    name = getattr(target, "__name__", None) or type(target).__name__
    if name == "<lambda>":
        raise ConfigurationError("a lambda has no name; give one: guard.tool(fn, name='...')")
    return str(name)


def _takes_receiver(fn: Any) -> bool:
    """Answer whether `fn` is a method that was decorated inside its class, so that its first argument is the instance."""
    if not inspect.isfunction(fn):
        return False
    owner = fn.__qualname__.rpartition(".")[0]
    if not owner or owner.endswith("<locals>"):
        return False
    first = next(iter(inspect.signature(fn).parameters), None)
    return first in ("self", "cls")


def _check_shape(tool: Tool) -> None:
    name = tool.name
    if not isinstance(name, str) or not _NAME.match(name):
        raise ConfigurationError(
            f"{name!r} is no tool name; use letters, digits, '_', '-', '.', starting with a letter, at most 128"
        )
    if not callable(tool.fn):
        raise ConfigurationError(f"tool {name!r}: fn={tool.fn!r} is not callable")
    if tool.effect not in _EFFECTS:
        raise ConfigurationError(f"tool {name!r}: effect={tool.effect!r} is unknown; use one of {', '.join(_EFFECTS)}")
    check_options(tool)
    if tool.inline and tool.timeout is not None:
        raise ConfigurationError(
            f"tool {name!r}: an inline tool cannot be left behind, so its timeout cannot be kept; leave one out"
        )
    if tool.timeout == 0:
        raise ConfigurationError(f"tool {name!r}: timeout=0 lets nothing run; use None for no limit")
    _check_recovery(tool)


def _check_recovery(tool: Tool) -> None:
    name, retry = tool.name, tool.retry
    attempts = retry.attempts if isinstance(retry, Retry) else retry
    if tool.effect == "destructive" and attempts is not None and attempts > 1:
        raise ConfigurationError(f"tool {name!r} is destructive and is never repeated; leave retry= out")
    if tool.is_read:
        for option in ("confirm", "settle", "business_key"):
            if getattr(tool, option) is not None:
                raise ConfigurationError(
                    f"tool {name!r} only reads, so {option}= has no meaning; leave it out or declare effect='write'"
                )
    confirm = tool.confirm
    confirmed_by = getattr(confirm, "__fcguard_tool__", None)
    if confirmed_by is not None:
        if not confirmed_by.is_read:
            raise ConfigurationError(
                f"tool {name!r}: its confirm {confirmed_by.name!r} writes; a confirmation may only read"
            )
        raise ConfigurationError(
            f"tool {name!r}: say what the answer of {confirmed_by.name!r} means: "
            f"confirm=ConfirmBy({confirmed_by.name!r}, applied=lambda data: ...)"
        )
    if confirm is not None and not isinstance(confirm, ConfirmBy) and not callable(confirm):
        raise ConfigurationError(
            f"tool {name!r}: confirm={confirm!r} must be a callable (call) -> Applied | NotApplied | ..., or a ConfirmBy"
        )
    for entry in tool.fallback:
        if not isinstance(entry, (str, Fallback)):
            raise ConfigurationError(f"tool {name!r}: fallback {entry!r} must be a tool's name or a Fallback")
        if name == (entry if isinstance(entry, str) else entry.tool):
            raise ConfigurationError(f"tool {name!r} is its own fallback; name another tool, or allow retries")
    check_own_plans(tool)


def _check_colours(tool: Tool, rules: Sequence[Any], is_async_tool: bool) -> None:
    for always_sync in _always_sync(tool):
        if is_coroutine_callable(always_sync):
            shown = getattr(always_sync, "__name__", None) or repr(always_sync)
            raise ColourError(
                f"tool {tool.name!r}: {shown!r} is async; classifiers, normalizers, failed_when, and what ConfirmBy and Fallback "
                "are given are always sync"
            )
    if is_async_tool:
        return
    others = [tool.ready]
    if not isinstance(tool.confirm, ConfirmBy):
        others.append(tool.confirm)
    if callable(tool.approval):
        others.append(tool.approval)
    others += [getattr(one, "admit", one) for one in tool.constraints]
    for one in [*rules, *[other for other in others if other is not None]]:
        if is_async(one) or is_coroutine_callable(one) or getattr(one, "is_async", False) is True:
            shown = getattr(one, "__name__", None) or repr(one)
            raise ColourError(
                f"tool {tool.name!r} is sync, but {shown!r} is async and cannot serve it; make it sync, or the tool async"
            )


def _always_sync(tool: Tool) -> Iterator[Any]:
    yield from tool.classifiers
    yield from tool.normalize.values()
    yield tool.failed_when
    if isinstance(tool.confirm, ConfirmBy):
        yield tool.confirm.applied
        yield tool.confirm.arguments
    for entry in tool.fallback:
        if isinstance(entry, Fallback):
            yield entry.arguments


def _check_parameters(tool: Tool, schema: ArgumentSchema) -> None:
    properties = tool.parameters.get("properties") or {}
    for parameter, source in tool.bound.items():
        if source not in BOUND_NAMES:
            raise ConfigurationError(
                f"tool {tool.name!r}: bound {parameter!r} names {source!r}; use one of {', '.join(BOUND_NAMES)}"
            )
    is_open = tool.parameters.get("additionalProperties", True) is not False
    may_be_elsewhere = is_open and (not properties or not _COMPOSING.isdisjoint(tool.parameters))
    named = {
        "business_key": tool.business_key or (),
        "normalize": tuple(tool.normalize),
        "aliases": tuple(tool.aliases),
    }
    for option, parameters in named.items():
        for parameter in parameters:
            if parameter not in properties and not may_be_elsewhere:
                known = ", ".join(properties) or "none"
                raise ConfigurationError(
                    f"tool {tool.name!r}: {option} names {parameter!r}, which is no parameter; parameters: {known}"
                )


def by_name(prepared: Prepared, args: tuple[Any, ...], keywords: dict[str, Any]) -> dict[str, Any]:
    """Give positional arguments their names; what has none becomes a key that the schema refuses, not an exception."""
    named = dict(zip(prepared.names, args, strict=False))
    for position, value in enumerate(args[len(prepared.names) :], start=len(prepared.names) + 1):
        named[f"argument {position}"] = value
    for name, value in keywords.items():
        named[f"{name} (given twice)" if name in named else name] = value
    return named


class ToolDecorator(Protocol):
    """Typing only: what `guard.tool(...)` with options answers."""

    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, fn: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Callable[P, Coroutine[Any, Any, ToolResult[R]]]: ...
    @overload
    def __call__(self, fn: Callable[P, R], /) -> Callable[P, ToolResult[R]]: ...
