"""What a call may rely on: the task's goal, environment, state, tools and output contract."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

__all__ = ["OUTSIDE", "Bound", "Budget", "Environment", "Goal", "OutputContract", "State", "TaskContext", "Tools"]

Risk = Literal["low", "medium", "high"]

_GLOB: Final = frozenset("*?[")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=False)


class Goal(_Frozen):
    """What the task is for.

    Attributes:
        objective: one sentence.
        entry: through which door the task acts; recorded, for your rules and the evidence: the guard does not act on it.
        success_criteria: checks that make the task done; recorded, not checked.
        forbidden_actions: tool names, or explicit globs, that this task must never call.
    """

    objective: str = ""
    entry: Literal["api", "ui", "mixed"] = "api"
    success_criteria: tuple[str, ...] = ()
    forbidden_actions: frozenset[str] = frozenset()


class Environment(_Frozen):
    """Where the task acts. Identity (tenant, account) is bound here by the host, never by the model.

    Attributes:
        name: name of the environment, e.g. `test-a`.
        tenant: tenant whose data may be touched.
        account: account to act as.
        account_pool: name of a pool to lease an account from.
        base_urls: hosts that tools may reach.
        data_sources: names of the data sources that tools may read.
        alternatives: environments that recovery may switch to, in order.
    """

    name: str
    tenant: str | None = None
    account: str | None = None
    account_pool: str | None = None
    base_urls: tuple[str, ...] = ()
    data_sources: tuple[str, ...] = ()
    alternatives: tuple[Environment, ...] = ()


class State(_Frozen):
    """What has happened so far in the task.

    Attributes:
        completed_steps: names of steps already done.
        previous_outputs: outputs of earlier steps, by name.
        session_id: id of the surrounding session.
        resource_state: known state of resources, by name; for your rules.
        evidence: references to evidence kept so far; for your rules and prompts.
    """

    completed_steps: tuple[str, ...] = ()
    previous_outputs: dict[str, Any] = Field(default_factory=dict)
    session_id: str | None = None
    resource_state: dict[str, Any] = Field(default_factory=dict)
    evidence: tuple[str, ...] = ()


class Tools(_Frozen):
    """Which tools the task may use.

    Attributes:
        allow: exact names, or explicit globs (`query_*`); None: any registered tool.
        write_allowed: whether tools that change the world may run at all.
    """

    allow: frozenset[str] | None = None
    write_allowed: bool = True

    def admits(self, name: str) -> bool:
        """Answer whether a tool of this exact name is on the whitelist; a glob counts only where a glob is written."""
        allow = self.allow
        if allow is None or name in allow:
            return True
        return any(fnmatchcase(name, entry) for entry in allow if _GLOB & set(entry))


class OutputContract(_Frozen):
    """What the data of a successful call must look like.

    Attributes:
        json_schema: JSON Schema of `data`; None: anything.
        required: top-level fields that a success must hold.
        required_on_failure: envelope fields a failure must fill; one that does not is flagged `contract_broken`.
        consumed_later: fields that later steps read; for your rules and prompts, not checked (`required` is).
    """

    json_schema: dict[str, Any] | None = None
    required: tuple[str, ...] = ()
    required_on_failure: tuple[str, ...] = ()
    consumed_later: tuple[str, ...] = ()


class Budget(_Frozen):
    """Limits of a whole task; None means no limit.

    Attributes:
        calls: governed calls.
        attempts: dispatches, retries included.
        seconds: wall time since the task began.
        cost: in the unit that the tools' `cost` uses.
    """

    calls: int | None = Field(default=None, ge=0)
    attempts: int | None = Field(default=None, ge=0)
    seconds: float | None = Field(default=None, ge=0)
    cost: float | None = Field(default=None, ge=0)


class TaskContext(_Frozen):
    """The five kinds of information that make an executable input, and who is acting.

    Attributes:
        goal, environment, state, tools, output: the five kinds.
        task_id: id of the task; every record of it carries this.
        step: number of the current step (one model turn is one step); None: counted by the guard.
        risk: how much harm a mistake can do here; recorded, for your rules: the guard does not act on it.
        budget: limits of the task.
        agent, conversation_id, actor: who acts, for telemetry and permissions.
        roles: roles of the actor.
        evidence_dir: where artifacts go; None: the guard's own directory.
    """

    goal: Goal = Goal()
    environment: Environment | None = None
    state: State = State()
    tools: Tools = Tools()
    output: OutputContract | None = None
    task_id: str = ""
    step: int | None = None
    risk: Risk = "medium"
    budget: Budget | None = None
    agent: str | None = None
    conversation_id: str | None = None
    actor: str | None = None
    roles: frozenset[str] = frozenset()
    evidence_dir: str | None = None

    @field_validator("task_id")
    @classmethod
    def _printable(cls, value: str) -> str:
        if len(value) > 200 or any(character < " " or "\ud800" <= character <= "\udfff" for character in value):
            raise ValueError("task_id must be at most 200 printable characters")
        if value == "-":
            raise ValueError("task_id='-' stands for calls outside a task; give it a name")
        return value

    def value_of(self, name: str) -> str | None:
        """Answer the identity that a `Bound(name)` parameter receives; None if the context does not hold it.

        Args:
            name: `tenant`, `account`, `environment`, `actor`, `agent`, `task_id`, `session_id` or `conversation_id`.
        """
        environment = self.environment
        known: Mapping[str, str | None] = {
            "tenant": environment.tenant if environment is not None else None,
            "account": environment.account if environment is not None else None,
            "environment": environment.name if environment is not None else None,
            "actor": self.actor,
            "agent": self.agent,
            "task_id": self.task_id,
            "session_id": self.state.session_id,
            "conversation_id": self.conversation_id,
        }
        return known.get(name)


BOUND_NAMES = ("tenant", "account", "environment", "actor", "agent", "task_id", "session_id", "conversation_id")


@dataclass(frozen=True, slots=True)
class Bound:
    """Marks a parameter that the host fills from the task context; the model neither sees nor sends it.

    Use it as an annotation (`tenant: Annotated[str, Bound("tenant")]`) or in the tool's option `bound={"tenant_id": "tenant"}`.

    Attributes:
        name: one of `BOUND_NAMES`.
    """

    name: str

    def __post_init__(self) -> None:
        if self.name not in BOUND_NAMES:
            raise ValueError(f"Bound({self.name!r}): unknown; use one of {', '.join(BOUND_NAMES)}")


OUTSIDE: Final = TaskContext()
"""The context of a call that belongs to no task."""
