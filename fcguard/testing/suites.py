"""Running a suite: every prompt several times, resumable, in parallel if wanted, with nothing lost by an interrupt.

::

    ran = run_suite(my_agent, suite_named("traps-en"), trials=3, journal="run.jsonl", workers=4)
    found = assess([ran.run()], ran.suite.measures)
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from fcguard.errors import UsageError
from fcguard.evaluation.importers.read import read_records
from fcguard.evaluation.trace import Run
from fcguard.testing.fault_matrix import fault_suite
from fcguard.testing.progress import Advance, ProgressStyle, show_progress
from fcguard.testing.session_journal import SessionJournal
from fcguard.testing.suite import Agent, Suite, run_session
from fcguard.testing.trap_suite import trap_suite

__all__ = ["SUITES", "SuiteRun", "run_suite", "suite_named"]

SUITES: Final[dict[str, Callable[[], Suite]]] = {
    "traps-en": lambda: trap_suite("en"),
    "traps-zh": lambda: trap_suite("zh"),
    "faults": fault_suite,
}
"""The suites that ship, by name."""


def suite_named(name: str) -> Suite:
    """Make a suite that ships.

    Raises:
        UsageError: there is none of that name; the message lists them.
    """
    if name not in SUITES:
        raise UsageError(f"there is no suite {name!r}; known: {', '.join(SUITES)}")
    return SUITES[name]()


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """A finished run.

    Attributes:
        suite: what was run.
        sessions: one dict a session, in the order of the prompts: outcome, calls, criteria.
        journal: the file that holds them as a trace; None if there is none.
    """

    suite: Suite
    sessions: list[dict[str, Any]]
    journal: Path | None = None

    def run(self) -> Run:
        """Answer the run for `assess`; each run can be read once, this method any number of times."""
        return read_records(self.sessions, "tool_list")


def run_suite(
    agent: Agent,
    suite: Suite,
    trials: int = 3,
    *,
    journal: str | Path | None = None,
    resume: bool = True,
    workers: int = 1,
    progress: ProgressStyle = "auto",
    only: frozenset[str] | set[str] | None = None,
) -> SuiteRun:
    """Try an agent on every prompt of a suite.

    An interrupt (Ctrl-C) loses no finished session: they are in the journal, and the same call goes on from there. With one worker the
    running session is given up; with more, running sessions end first.

    Args:
        agent: `(prompt, guard) -> answer`, sync or async.
        suite: what to try it on.
        trials: how often each prompt is tried.
        journal: JSON Lines file of the finished sessions, readable as a trace at any moment; None: kept in memory only.
        resume: whether sessions that the journal holds already are left out; False: an existing journal is refused.
        workers: sessions that run at once, each on a guard of its own, in threads of this process.
        progress: how to show progress, on standard error.
        only: task ids to run; None: all.

    Returns:
        The run, resumed sessions included.

    Raises:
        UsageError: a number or a name makes no sense, or the journal belongs to something else.
    """
    if trials < 1 or workers < 1:
        raise UsageError(f"trials={trials!r}, workers={workers!r}: both must be 1 or more")
    unknown = sorted((only or set()) - set(suite.prompts))
    if unknown:
        raise UsageError(f"suite {suite.name!r} has no task {', '.join(unknown)}; it has {', '.join(suite.prompts)}")
    path = None if journal is None else Path(journal)
    kept = SessionJournal(path, suite, resume=resume)
    wanted = [
        (task_id, trial) for trial in range(trials) for task_id in suite.prompts if only is None or task_id in only
    ]
    todo = [session for session in wanted if session not in kept]
    with show_progress(suite.name, len(wanted), done=len(wanted) - len(todo), style=progress) as advance:
        if workers == 1:
            for task_id, trial in todo:
                _finish(kept, run_session(agent, suite, task_id, trial), advance)
        else:
            _run_in_threads(agent, suite, todo, kept, advance, workers)
    return SuiteRun(suite, kept.lines, path)


def _finish(kept: SessionJournal, line: dict[str, Any], advance: Advance) -> None:
    kept.add(line)
    advance(f"{line['session_id']} {line['outcome']}")


def _run_in_threads(
    agent: Agent,
    suite: Suite,
    todo: list[tuple[str, int]],
    kept: SessionJournal,
    advance: Advance,
    workers: int,
) -> None:
    waiting = list(reversed(todo))
    running: set[Future[dict[str, Any]]] = set()
    with ThreadPoolExecutor(workers, thread_name_prefix="fcguard-suite") as threads:
        try:
            while waiting or running:
                while waiting and len(running) < workers:
                    running.add(threads.submit(run_session, agent, suite, *waiting.pop()))
                for future in wait(running, return_when=FIRST_COMPLETED).done:
                    _finish(kept, future.result(), advance)
                    running.discard(future)
        except BaseException:
            for future in running:
                with suppress(Exception):  # what is raised already says more
                    _finish(kept, future.result(), advance)
            raise
