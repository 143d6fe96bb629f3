"""The part of a guard that makes governed tools of functions, and answers which there are."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any, ParamSpec, TypeVar, Unpack, overload

from fcguard.config import Config, Prepared, Toolbox
from fcguard.constraints.history import task_history
from fcguard.declare import GuardParts, ToolDecorator, by_name, prepare_function, prepare_registered
from fcguard.errors import ConfigurationError
from fcguard.model.call import Call
from fcguard.model.context import TaskContext
from fcguard.model.intent import Intent
from fcguard.model.result import ToolResult
from fcguard.model.tool import Tool, ToolOptions
from fcguard.pipeline import govern
from fcguard.runtime import AsyncioIO, BlockingIO, drive

__all__ = ["Declaring"]

P = ParamSpec("P")
R = TypeVar("R")


class Declaring:
    """Declares tools; the guard gives it the tools, the collaborators and both ways to run a call."""

    _tools: Toolbox
    _parts: GuardParts
    _config: Config
    _io: BlockingIO
    _aio: AsyncioIO
    _has_history = False

    def _open(
        self, intent: Intent, context: TaskContext | None, prepared: Prepared | None = None, step: int | None = None
    ) -> Call:
        raise NotImplementedError

    @overload
    def tool(  # type: ignore[overload-overlap]
        self, fn: Callable[P, Coroutine[Any, Any, R]], /
    ) -> Callable[P, Coroutine[Any, Any, ToolResult[R]]]: ...
    @overload
    def tool(self, fn: Callable[P, R], /) -> Callable[P, ToolResult[R]]: ...
    @overload
    def tool(self, /, **options: Unpack[ToolOptions]) -> ToolDecorator: ...
    @overload
    def tool(self, fn: Callable[P, R], /, **options: Unpack[ToolOptions]) -> Callable[P, Any]: ...

    def tool(self, fn: Any = None, /, **options: Any) -> Any:
        """Make a governed tool of a function, method or callable; bare, or with the options of `fcguard.Tool`.

        Args:
            fn: the callable.
            **options: see `fcguard.Tool`; the parameters come from the signature.

        Returns:
            A function with the same name, signature and docstring that goes through the eight steps and answers a `ToolResult`
            (a coroutine of one for an async tool). The original is its `__wrapped__`.

        Raises:
            ConfigurationError: an option or the signature cannot work; the message says how to mend it.
        """
        if fn is None:
            scope = sys._getframe(1).f_locals
            return lambda function: self._decorate(function, options, scope)
        return self._decorate(fn, options, sys._getframe(1).f_locals)

    def _decorate(self, fn: Any, options: Mapping[str, Any], scope: Mapping[str, Any]) -> Any:
        if isinstance(fn, staticmethod):
            return staticmethod(self._decorate(fn.__func__, options, scope))
        prepared = prepare_function(fn, options, scope, self._parts)
        self._add(prepared)
        return self._wrap(fn, prepared)

    def register(self, tool: Tool) -> Callable[..., Any]:
        """Register a tool that comes as JSON Schema and callable (MCP, OpenAPI, remote tools); the schema is used as it is.

        Returns:
            The governed function, as `tool` does.

        Raises:
            ConfigurationError: something about it cannot work. Faults of a foreign schema that one cannot mend are not
                raised; they are in `guard.findings(name)`.
        """
        if not isinstance(tool, Tool):
            raise ConfigurationError(f"guard.register takes a Tool, not {tool!r}; decorate functions with guard.tool")
        prepared = prepare_registered(tool, self._parts)
        self._add(prepared)
        return self._wrap(tool.fn, prepared)  # type: ignore[no-any-return]

    def _add(self, prepared: Prepared) -> None:
        """Register a tool; once one asks for the history of the task, every tool writes it."""
        self._tools.add(prepared)
        if not self._has_history:
            self._has_history = any(getattr(one, "needs_history", False) for one in prepared.constraints)
            changed: Iterable[Prepared] = self._tools if self._has_history else ()
        else:
            changed = (prepared,)
        for one in changed:
            one.constraints = (task_history, *one.constraints)

    def _wrap(self, fn: Any, prepared: Prepared) -> Any:
        if prepared.is_async:

            async def governed(*args: Any, **keywords: Any) -> Any:
                call = self._from_code(prepared, args, keywords)
                return (await govern(call, self._config, self._aio)).take_result()

        else:

            def governed(*args: Any, **keywords: Any) -> Any:  # type: ignore[misc]
                call = self._from_code(prepared, args, keywords)
                return drive(govern(call, self._config, self._io)).take_result()

        wrapper: Any = functools.update_wrapper(governed, fn) if hasattr(fn, "__name__") else governed
        wrapper.__wrapped__ = fn
        wrapper.__name__ = prepared.tool.name
        if not wrapper.__doc__:
            wrapper.__doc__ = prepared.tool.description
        wrapper.__fcguard_tool__ = prepared.tool
        return wrapper

    def _from_code(self, prepared: Prepared, args: tuple[Any, ...], keywords: dict[str, Any]) -> Call:
        receiver = None
        if prepared.takes_receiver and args:
            receiver, args = args[0], args[1:]
        if args:
            keywords = by_name(prepared, args, keywords)
        call = self._open(Intent.of(prepared.tool.name, keywords), None, prepared)
        call.receiver = receiver
        return call

    @property
    def tools(self) -> tuple[Tool, ...]:
        """All registered tools, in the order they were registered."""
        return tuple(prepared.tool for prepared in self._tools)

    def findings(self, name: str) -> tuple[Any, ...]:
        """Answer what is odd about a tool's schema: faults of a foreign schema that were worked around."""
        findings: tuple[Any, ...] = self._tools.require(name).schema.findings
        return findings

    def instrument(self, name: str, *, fn: Any = None, normalize: Mapping[str, Any] | None = None) -> Tool:
        """Have a tool run other code under the same contract, for tests (`fcguard.testing.faults`); answers it as it was."""
        return self._tools.instrument(name, fn, normalize)
