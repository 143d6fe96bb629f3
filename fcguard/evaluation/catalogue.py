"""The tools that were offered: their schemas, effects and extra checks, and what is wrong with one call's arguments."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from fcguard.arguments import ArgumentSchema
from fcguard.errors import ConfigurationError, FcguardError
from fcguard.evaluation.canonical import digest
from fcguard.evaluation.trace import CallRecord
from fcguard.model.failure import Effect, Problem

__all__ = ["ArgumentCheck", "Catalogue", "CheckState", "SemanticCheck", "ToolSpec"]

SemanticCheck: TypeAlias = Callable[[dict[str, Any]], Iterable[Problem]]
"""A check beyond the schema (SQL bounded, search scoped, expression legal). It parses; it does not search text."""

CheckState: TypeAlias = Literal["valid", "invalid", "over_broad", "unparsable", "unknown_tool", "unchecked"]

TOO_BROAD = "too_broad"
"""The `rule` of a problem that says arguments are legal but ask for too much."""


@dataclass(frozen=True, slots=True)
class ArgumentCheck:
    """What was found about the arguments of one call.

    Attributes:
        state: `unchecked`: no arguments were recorded, or the tool has no usable schema.
        problems: the faults, if any.
    """

    state: CheckState
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool that was offered.

    Attributes:
        tool: its name.
        server: the server it lives on; empty if there is only one.
        schema: JSON Schema of its arguments; None: not known.
        effect: what it does to the world; None: not declared, so that a call
            that the gold does not ask for cannot be judged.
        effect_of: tells the effect of one call from its arguments (a query tool that can also delete).
        semantic: checks beyond the schema.
        polling: whether asking the same again is how the tool is meant to be used.
        compensates: names of tools whose effect this one takes back.
        business_key: parameters that identify the effect; None: all arguments.
    """

    tool: str
    server: str = ""
    schema: Mapping[str, Any] | None = None
    effect: Effect | None = None
    effect_of: Callable[[dict[str, Any]], Effect] | None = None
    semantic: tuple[SemanticCheck, ...] = ()
    polling: bool = False
    compensates: frozenset[str] = frozenset()
    business_key: tuple[str, ...] | None = None


@dataclass(slots=True)
class Catalogue:
    """The tools of a run, by (server, tool).

    Attributes:
        tools: the tools.
        assert_formats: whether a `format` that does not hold is a fault. By default it is not, as in JSON Schema itself;
            the guard does assert formats, so say true for tools that run under it.
        unusable: tools whose schema cannot be compiled, with the reason; their calls stay unchecked.
    """

    tools: dict[tuple[str, str], ToolSpec] = field(default_factory=dict)
    assert_formats: bool = False
    unusable: dict[tuple[str, str], str] = field(default_factory=dict)
    _compiled: dict[tuple[str, str], ArgumentSchema | None] = field(default_factory=dict)

    @classmethod
    def of(cls, specs: Iterable[ToolSpec]) -> Catalogue:
        """Make a catalogue; the last of two tools of one identity wins."""
        return cls({(spec.server, spec.tool): spec for spec in specs})

    @classmethod
    def load(cls, source: str | Path | Any) -> Catalogue:
        """Read a catalogue from a file or from parsed JSON.

        Understands OpenAI tools (`[{"type": "function", "function": {...}}]`), MCP tool lists (`{"tools": [...]}` or a
        plain list with `inputSchema`), lists of MCP servers, and `{"tools": [...], "side_effect": {...}}`.

        Args:
            source: a path, or the parsed content.

        Raises:
            ConfigurationError: the file cannot be read or holds no tool.
        """
        content = source
        if isinstance(source, (str, Path)):
            try:
                content = json.loads(Path(source).read_text("utf-8"))
            except (OSError, ValueError) as error:
                raise ConfigurationError(f"tool catalogue {str(source)!r} cannot be read: {error}") from error
        found = cls.of(_specs(content, "", {}))
        if not found.tools:
            raise ConfigurationError("tool catalogue: no tool definition found; give OpenAI tools or an MCP tools/list")
        return found

    @property
    def schema_hash(self) -> str:
        """Digest of all names and schemas: two runs with different tools are not comparable."""
        return digest([[list(key), dict(spec.schema or {})] for key, spec in sorted(self.tools.items())])

    def find(self, call: CallRecord) -> ToolSpec | None:
        """Answer the tool that a call names exactly; without a server in the trace, the name must be unique."""
        server, tool = call.identity
        spec = self.tools.get((server, tool))
        if spec is not None or server:
            return spec
        same_name = [other for (_, name), other in self.tools.items() if name == tool]
        return same_name[0] if len(same_name) == 1 else None

    def effect_of(self, call: CallRecord) -> Effect | None:
        """Answer the effect of one call: as recorded, else told by its arguments, else as its tool declares."""
        if call.effect is not None:
            return call.effect
        spec = self.find(call)
        if spec is None:
            return None
        if spec.effect_of is not None and call.acting_arguments is not None:
            return spec.effect_of(call.acting_arguments)
        return spec.effect

    def check(self, call: CallRecord) -> ArgumentCheck:
        """Check one call's arguments against its tool's schema and semantic checks; never raises for a bad call."""
        spec = self.find(call)
        if self.tools and spec is None:
            return ArgumentCheck("unknown_tool")
        if call.parse_error is not None:
            return ArgumentCheck("unparsable", (Problem("", "parse", call.parse_error),))
        if call.validation:
            return _recorded(call.validation)
        if call.arguments is None or spec is None:
            return ArgumentCheck("unchecked")
        schema = self._schema(spec)
        if schema is None:
            return ArgumentCheck("valid") if call.validation is not None else ArgumentCheck("unchecked")
        problems = schema.check(call.arguments)
        if not self.assert_formats:
            problems = tuple(problem for problem in problems if problem.rule != "format")
        if problems:
            return ArgumentCheck("invalid", tuple(problems))
        semantic = tuple(problem for check in spec.semantic for problem in check(call.arguments))
        return _recorded(semantic) if semantic else ArgumentCheck("valid")

    def _schema(self, spec: ToolSpec) -> ArgumentSchema | None:
        key = (spec.server, spec.tool)
        if key not in self._compiled:
            self._compiled[key] = None
            if spec.schema is not None:
                try:
                    self._compiled[key] = ArgumentSchema.compile(dict(spec.schema))
                except FcguardError as error:
                    self.unusable[key] = str(error)
        return self._compiled[key]


def _recorded(problems: tuple[Problem, ...]) -> ArgumentCheck:
    is_broad = all(problem.rule == TOO_BROAD for problem in problems)
    return ArgumentCheck("over_broad" if is_broad else "invalid", problems)


_EFFECTS: dict[str, Effect] = {
    "read": "read",
    "idempotent_write": "idempotent_write",
    "write": "write",
    "destructive": "destructive",
    "generic": "read",
    "think": "read",
}
"""Words for an effect in tool files -> ours. `generic` and `think` tools (calculate, hand over) change no data."""


def _specs(content: Any, server: str, effects: Mapping[str, Any]) -> Iterable[ToolSpec]:
    if isinstance(content, list):
        for item in content:
            yield from _specs(item, server, effects)
    elif isinstance(content, dict):
        function = content.get("function")
        if isinstance(function, dict):
            yield _spec(function, server, effects, content)
        elif isinstance(content.get("tools"), (list, dict)):
            inside = content.get("side_effect")
            effects = inside if isinstance(inside, dict) else effects
            tools = content["tools"]
            if isinstance(tools, list):
                yield from _specs(tools, str(content.get("server_name") or server), effects)
            else:
                for name, value in tools.items():
                    yield from _specs(value, str(name), effects)
        elif isinstance(content.get("name"), str):
            yield _spec(content, server, effects, content)


def _spec(tool: Mapping[str, Any], server: str, effects: Mapping[str, Any], outer: Mapping[str, Any]) -> ToolSpec:
    name = str(tool.get("name", ""))
    schema = next(
        (tool[key] for key in ("inputSchema", "input_schema", "parameters") if isinstance(tool.get(key), dict)), None
    )
    declared = effects.get(name) or outer.get("effect") or outer.get("side_effect") or tool.get("effect")
    effect = _EFFECTS.get(str(declared)) if declared else None
    return ToolSpec(name, server, schema, effect or _hinted(tool.get("annotations")))


def _hinted(annotations: Any) -> Effect | None:
    """Read MCP's hints; they are a server's own claim, so only a claim of reading is believed to be harmless."""
    if not isinstance(annotations, dict):
        return None
    if annotations.get("readOnlyHint") is True:
        return "read"
    if annotations.get("destructiveHint") is True:
        return "destructive"
    return "idempotent_write" if annotations.get("idempotentHint") is True else None
