"""What a suite is, and how one session of it is run and written down as one line of a trace."""

from __future__ import annotations

import asyncio
import inspect
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

from fcguard.evaluation.catalogue import Catalogue
from fcguard.evaluation.gold import Gold
from fcguard.evaluation.metrics import Measures
from fcguard.guard import Guard
from fcguard.testing.dispatches import Dispatch, watch_dispatches
from fcguard.testing.ledger_trace import ledger_records

__all__ = ["Agent", "Judgement", "SessionFacts", "Stage", "Suite", "run_session", "session_id"]

Agent: TypeAlias = Callable[[str, Guard], Any]
"""`(prompt, guard) -> answer`, sync or async: does what the prompt asks, with the guard's tools, inside the task that is open.

A text that it answers is what the user is told: that is how a session can show that a stop was explained. None: not recorded.
"""

_LONGEST_ANSWER: Final = 2000


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What one session left behind, for its judge.

    Attributes:
        calls: records of the calls through the guard, in order, as the `ledger` importer documents them.
        dispatches: every entry into a tool's function, through the guard or around it.
        answer: what the agent told the user; None if it answered nothing.
        error: the exception that the agent let escape; None if it came to its end.
    """

    calls: list[dict[str, Any]]
    dispatches: list[Dispatch]
    answer: str | None = None
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Judgement:
    """How a session is judged.

    Attributes:
        outcome: `passed`, `failed`, `infra_error`, or `unscored`: then the gold decides.
        criteria: name -> `{"state": "ok" | "failed" | "not_applicable", "why": ...}`.
    """

    outcome: str = "unscored"
    criteria: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stage:
    """Everything one session runs on, made fresh for it.

    Attributes:
        guard: with the tools of the suite.
        task: options of `guard.task` (allow, state, environment, ...); the id is given by the runner.
        judge: judges the session; None: the gold does.
    """

    guard: Guard
    task: Mapping[str, Any] = field(default_factory=dict)
    judge: Callable[[SessionFacts], Judgement] | None = None


@dataclass(frozen=True, slots=True)
class Suite:
    """A set of prompts with the tools, the gold and the stage that they are tried on.

    Attributes:
        name: its name.
        prompts: task id -> prompt.
        gold: what a good run of each task does.
        catalogue: the tools that are offered.
        stage: `(task_id, trial, folder) -> context manager of a Stage`; the folder is empty and removed afterwards.
        description: one sentence.
    """

    name: str
    prompts: Mapping[str, str]
    gold: Gold
    catalogue: Catalogue
    stage: Callable[[str, int, Path], AbstractContextManager[Stage]]
    description: str = ""

    @property
    def measures(self) -> Measures:
        """How a run of the suite is to be measured by `assess`."""
        return Measures(self.gold, self.catalogue)


def session_id(task_id: str, trial: int) -> str:
    """Answer the id of a session: its guard's task has this id, and a ledger is read back by it."""
    return f"{task_id}#{trial}"


def run_session(agent: Agent, suite: Suite, task_id: str, trial: int) -> dict[str, Any]:
    """Run one session and answer it as one object of a `tool_list` trace.

    An exception that the agent lets escape ends the session as `infra_error`: it is written down, not raised. Interrupts pass.

    Args:
        agent: the agent.
        suite: the suite.
        task_id: one of its prompts.
        trial: number of the trial, from 0.
    """
    prompt = suite.prompts[task_id]
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fcguard-suite-") as name, suite.stage(task_id, trial, Path(name)) as stage:
        seen = watch_dispatches(stage.guard)
        answer, error = _ask(agent, prompt, stage, session_id(task_id, trial))
        calls = list(ledger_records(stage.guard.store, task_id=session_id(task_id, trial)))
        facts = SessionFacts(calls, seen, answer, error)
        judgement = stage.judge(facts) if stage.judge is not None else Judgement()
    return _line(suite, task_id, trial, facts, judgement, time.monotonic() - started)


def _ask(agent: Agent, prompt: str, stage: Stage, task_id: str) -> tuple[str | None, Exception | None]:
    try:
        with stage.guard.task(prompt, task_id=task_id, **stage.task):
            answer = agent(prompt, stage.guard)
            if inspect.isawaitable(answer):
                answer = asyncio.run(_awaited(answer))
    except Exception as error:
        return None, error
    return (None if answer is None else str(answer)[:_LONGEST_ANSWER]), None


async def _awaited(answer: Any) -> Any:
    return await answer


def _line(
    suite: Suite, task_id: str, trial: int, facts: SessionFacts, judgement: Judgement, seconds: float
) -> dict[str, Any]:
    outcome = judgement.outcome
    if facts.error is not None and outcome == "unscored":
        outcome = "infra_error"
    line: dict[str, Any] = {
        "suite": suite.name,
        "prompts": suite.gold.prompt_set_hash,
        "session_id": session_id(task_id, trial),
        "task_id": task_id,
        "trial": trial,
        "outcome": outcome,
        "seconds": round(seconds, 3),
        "calls": facts.calls + [one.record() for one in facts.dispatches if not one.is_governed],
    }
    if facts.answer is not None:
        line |= {"answer": facts.answer, "reason_told": bool(facts.answer.strip())}
    if facts.error is not None:
        line["detail"] = f"the agent raised {type(facts.error).__name__}: {facts.error}"[:500]
    if judgement.criteria:
        line["criteria"] = {name: dict(found) for name, found in judgement.criteria.items()}
    return line
