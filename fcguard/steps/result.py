"""Step 6: turn whatever the tool returned into one JSON shape, and say whether it means failure."""

from __future__ import annotations

from typing import Final

from fcguard.config import Config
from fcguard.io import IO
from fcguard.model.call import Call
from fcguard.recovery.judge import judge_error, judge_returned
from fcguard.results import shape
from fcguard.results.contract import broken_contract

__all__ = ["shape_result"]

_PLAIN: Final = frozenset({dict, list, str, int, float, bool, type(None)})
"""Types that can be looked at twice: nothing is read out of them."""


async def shape_result(call: Call, config: Config, io: IO) -> None:
    """Fill the attempt's judgement, and `call.data` with JSON if there is any.

    What a done write returned never turns it into a failure: a broken output contract is flagged instead.
    """
    attempt = call.attempts[-1]
    prepared = call.prepared
    tool = prepared.tool
    if not attempt.returned:
        attempt.failure = judge_error(call, attempt, config.classifiers, io.now())
        return
    value = attempt.value
    shaped = shape(value, max_chars=tool.max_result_chars) if type(value) in _PLAIN else None
    if shaped is None or shaped.notes:  # something may have to be kept as a file
        keep = config.artifacts_of(call).keeper(tool.name, call.request_id, call.redactor)
        shaped = shape(value, max_chars=tool.max_result_chars, keep=keep)
    call.data = shaped.data
    if shaped.evidence:
        call.evidence = (*call.evidence, *shaped.evidence)
    for note in shaped.notes:
        call.flag(note)
    failure = None
    if shaped.failure is not None or tool.failed_when is not None or tool.classifiers or config.classifiers:
        failure = judge_returned(call, attempt, shaped.failure, config.classifiers, io.now())
    if failure is None and (tool.output is not None or call.context.output is not None):
        failure = broken_contract(call, shaped.data)
    attempt.failure = failure
    if failure is None:
        if not prepared.is_read:
            attempt.effect = "applied"
        call.returned = value
