"""The gold: what people say a good run of each task does. Read from YAML or JSON, checked by a published JSON Schema."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal, TypeAlias

from jsonschema import Draft202012Validator

from fcguard.errors import ConfigurationError, MissingExtraError
from fcguard.evaluation.canonical import digest
from fcguard.evaluation.matchers import Matcher, compile_matcher
from fcguard.model.failure import Effect

__all__ = [
    "NO_TOOL",
    "Choice",
    "Gold",
    "GoldStep",
    "GoldTask",
    "Suitability",
    "Tier",
    "gold_schema",
    "load_gold",
    "parse_gold",
]

Tier: TypeAlias = Literal["best", "acceptable"]

NO_TOOL = "none"
"""The name that stands for "no tool is needed here" among the choices of a step."""


@dataclass(frozen=True, slots=True)
class Choice:
    """One tool that fits a step.

    Attributes:
        tool, server: the tool's identity; a server of None fits any.
        tier: `best`, or `acceptable` where another would have been better.
        arguments: what the arguments must be; None: anything.
        source: `gold`, or `catalogue` where the tier was only derived from the suitability catalogue.
    """

    tool: str
    tier: Tier = "best"
    server: str | None = None
    arguments: Matcher | None = None
    source: Literal["gold", "catalogue"] = "gold"


@dataclass(frozen=True, slots=True)
class GoldStep:
    """One step of a task.

    Attributes:
        step_id: its name within the task.
        any_of: the tools that fit.
        wrong: tools that are known to be wrong here.
        after: ids of steps that must come first.
        optional: whether a run without it is as good.
        minimum, maximum: how often it is to be done.
        effect: effect that the step has on the world.
    """

    step_id: str
    any_of: tuple[Choice, ...]
    wrong: frozenset[str] = frozenset()
    after: tuple[str, ...] = ()
    optional: bool = False
    minimum: int = 1
    maximum: int = 1
    effect: Effect | None = None

    @property
    def is_none(self) -> bool:
        """Whether doing nothing fits this step."""
        return any(choice.tool == NO_TOOL for choice in self.any_of)


@dataclass(frozen=True, slots=True)
class GoldTask:
    """What people say about one task.

    Attributes:
        task_id: its id in the traces.
        slice: part of the suite it belongs to.
        prompt: what the agent is asked; part of the prompt-set hash.
        paths: whole alternative ways to do it; each is a tuple of steps. The best-fitting one counts.
        min_calls: fewest logical calls that do the task; None: nobody said.
        allowed_effects: effects the task may have; None: whatever its steps have.
        free_reads: whether the agent may look around: reads that match no step are neither extra nor over-tooling.
        stop_is_right: whether stopping safely, with the reason told, is the right end of a failure.
        best_tokens, best_cost, best_seconds: what the best tool needs; for ratios only.
    """

    task_id: str
    paths: tuple[tuple[GoldStep, ...], ...]
    slice: str = ""
    prompt: str = ""
    min_calls: int | None = None
    allowed_effects: frozenset[Effect] | None = None
    free_reads: bool = False
    stop_is_right: bool = False
    best_tokens: float | None = None
    best_cost: float | None = None
    best_seconds: float | None = None

    @property
    def wants_no_tool(self) -> bool:
        """Whether some path asks for no tool at all."""
        return any(all(step.is_none for step in path) for path in self.paths)


@dataclass(frozen=True, slots=True)
class Gold:
    """The gold of a suite.

    Attributes:
        suite: its name.
        tasks: task id -> task.
    """

    suite: str
    tasks: dict[str, GoldTask] = field(default_factory=dict)

    @property
    def prompt_set_hash(self) -> str:
        """Digest of the task ids, slices and prompts: runs over different prompts are not comparable."""
        return digest([[task.task_id, task.slice, task.prompt] for _, task in sorted(self.tasks.items())])

    def __iter__(self) -> Iterator[GoldTask]:
        return iter(self.tasks.values())


@dataclass(frozen=True, slots=True)
class Suitability:
    """A catalogue of what each tool is good for; a marked fallback where the gold names a kind of work, not a tool.

    Attributes:
        best_for, acceptable_for, wrong_for: kind of work -> tools.
    """

    best_for: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    acceptable_for: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    wrong_for: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, tools: Mapping[str, Mapping[str, Iterable[str]]]) -> Suitability:
        """Turn `{tool: {best_for: [kind], acceptable_for: [...], wrong_for: [...]}}` around."""
        tables: dict[str, dict[str, tuple[str, ...]]] = {"best_for": {}, "acceptable_for": {}, "wrong_for": {}}
        for tool, row in tools.items():
            for column, kinds in row.items():
                for kind in kinds:
                    tables[column][kind] = (*tables[column].get(kind, ()), tool)
        return cls(**tables)

    def choices(self, kind: str) -> tuple[Choice, ...]:
        """Answer the tools that fit a kind of work, marked as coming from the catalogue."""
        best = tuple(Choice(tool, "best", source="catalogue") for tool in self.best_for.get(kind, ()))
        return best + tuple(
            Choice(tool, "acceptable", source="catalogue") for tool in self.acceptable_for.get(kind, ())
        )


def gold_schema() -> dict[str, Any]:
    """Answer the published JSON Schema of a gold file."""
    text = resources.files("fcguard.evaluation").joinpath("gold.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def load_gold(path: str | Path) -> Gold:
    """Read a gold file, YAML (`.yaml`, `.yml`; extra `evaluation`) or JSON.

    Raises:
        ConfigurationError: the file cannot be read, or what is wrong in it and where.
        MissingExtraError: YAML without PyYAML.
    """
    path = Path(path)
    try:
        text = path.read_text("utf-8")
        content = _read_yaml(text) if path.suffix.lower() in (".yaml", ".yml") else json.loads(text)
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"gold {str(path)!r} cannot be read: {error}") from error
    return parse_gold(content, where=str(path))


def _read_yaml(text: str) -> Any:
    try:
        import yaml  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise MissingExtraError("PyYAML", "evaluation") from error
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError(str(error)) from error


def parse_gold(content: Any, *, where: str = "gold") -> Gold:
    """Make the gold from parsed content.

    Args:
        content: what `gold_schema()` describes.
        where: name of the source, for messages.

    Raises:
        ConfigurationError: every fault, each with its place.
    """
    faults = [
        f"{where}: {'/'.join(map(str, error.absolute_path)) or 'top level'}: {error.message}"
        for error in sorted(Draft202012Validator(gold_schema()).iter_errors(content), key=lambda error: error.json_path)
    ]
    if faults:
        raise ConfigurationError("\n".join(faults))
    suitability = Suitability.of(content.get("suitability", {}))
    tasks: dict[str, GoldTask] = {}
    for row in content["tasks"]:
        task = _task(row, suitability, where)
        if task.task_id in tasks:
            raise ConfigurationError(f"{where}: task {task.task_id!r} is given twice")
        tasks[task.task_id] = task
    return Gold(content.get("suite", ""), tasks)


def _task(row: Mapping[str, Any], suitability: Suitability, where: str) -> GoldTask:
    task_id = str(row["id"])
    place = f"{where}: task {task_id!r}"
    rows = row.get("alternatives") or [row.get("steps", [])]
    paths = tuple(tuple(_step(step, index, suitability, place) for index, step in enumerate(path)) for path in rows)
    for path in paths:
        _check_order(path, place)
    best = row.get("best", {})
    allowed = row.get("allowed_effects")
    return GoldTask(
        task_id=task_id,
        paths=paths,
        slice=row.get("slice", ""),
        prompt=row.get("prompt", ""),
        min_calls=row.get("min_calls"),
        allowed_effects=None if allowed is None else frozenset(allowed),
        free_reads=row.get("free_reads", False),
        stop_is_right=row.get("stop_is_right", False),
        best_tokens=best.get("tokens"),
        best_cost=best.get("cost"),
        best_seconds=best.get("seconds"),
    )


def _step(row: Mapping[str, Any], index: int, suitability: Suitability, place: str) -> GoldStep:
    choices = tuple(
        Choice(
            tool=choice["tool"],
            tier=choice.get("tier", "best"),
            server=choice.get("server"),
            arguments=compile_matcher(choice["arguments"]) if "arguments" in choice else None,
        )
        for choice in row.get("any_of", ())
    )
    kind, wrong = row.get("kind"), frozenset(row.get("wrong", ()))
    if not choices and kind is not None:
        choices = suitability.choices(kind)
        wrong |= frozenset(suitability.wrong_for.get(kind, ()))
    step_id = str(row.get("id", index + 1))
    if not choices:
        raise ConfigurationError(
            f"{place}: step {step_id!r}: no tool fits; give any_of, or a kind that is in suitability"
        )
    repeat = row.get("repeat", {})
    minimum = repeat.get("min", 1)
    maximum = repeat.get("max", max(1, minimum))
    if maximum < minimum:
        raise ConfigurationError(f"{place}: step {step_id!r}: repeat max {maximum} is below min {minimum}")
    after = tuple(map(str, row.get("after", ())))
    return GoldStep(step_id, choices, wrong, after, row.get("optional", False), minimum, maximum, row.get("effect"))


def _check_order(path: tuple[GoldStep, ...], place: str) -> None:
    """Refuse duplicate ids, unknown ids in `after`, and circles."""
    waiting = {step.step_id: set(step.after) for step in path}
    if len(waiting) != len(path):
        raise ConfigurationError(f"{place}: two steps have one id")
    unknown = {name for names in waiting.values() for name in names} - set(waiting)
    if unknown:
        raise ConfigurationError(f"{place}: after names unknown steps {sorted(unknown)!r}; known: {sorted(waiting)!r}")
    while waiting:
        free = {name for name, names in waiting.items() if not names}
        if not free:
            raise ConfigurationError(f"{place}: the steps {sorted(waiting)!r} wait for each other")
        waiting = {name: names - free for name, names in waiting.items() if name not in free}
