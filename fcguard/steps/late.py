"""Judge what an abandoned function did after all, while its object is at hand: for the confirmation, and for the ledger."""

from __future__ import annotations

from functools import partial

from fcguard.config import Config
from fcguard.io import IO
from fcguard.model.attempt import Attempt, Late, LateVerdict
from fcguard.model.call import Call
from fcguard.recovery.judge import judge_error, judge_returned
from fcguard.results import shape
from fcguard.stores.journal import watch_late

__all__ = ["judge_late", "record_late_results"]


def judge_late(call: Call, attempt: Attempt, late: Late, config: Config, io: IO) -> LateVerdict:
    """Answer what the end of an abandoned function proves; judged once, by the rules for an outcome that came in time.

    A classifier or `failed_when` that raises on it leaves it undecided: nobody waits for this value, so no benefit of the doubt.
    """
    if late.verdict is None:
        late.verdict = _judged(call, attempt, late, config, io.now())
    return late.verdict


def _judged(call: Call, attempt: Attempt, late: Late, config: Config, now: float) -> LateVerdict:
    probe = Attempt(attempt.number, attempt.started_at, attempt.started, attempt.timeout, attempt.delay)
    data = None
    try:
        if late.has_value:
            probe.value = late.value
            shaped = shape(late.value, max_chars=call.prepared.tool.max_result_chars)
            data = shaped.data
            failure = judge_returned(call, probe, shaped.failure, config.classifiers, now, strict=True)
            if failure is None:
                return LateVerdict("applied", data=data)
        else:
            probe.error = late.error
            failure = judge_error(call, probe, config.classifiers, now, strict=True)
    except Exception as error:
        return LateVerdict("unknown", message=f"it could not be judged ({type(error).__name__})", data=data)
    return LateVerdict(failure.effect, probe.error_type, failure.message, data)


def record_late_results(call: Call, config: Config, io: IO) -> None:
    """Have every abandoned function of the call judged and recorded when it ends."""
    for attempt in call.attempts:
        if attempt.late is not None and not attempt.is_restored:
            watch_late(
                call, attempt, config.store, io.now, partial(judge_late, call, attempt, attempt.late, config, io)
            )
