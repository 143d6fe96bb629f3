"""Classification of a failure: the tables, the words, an answer for every exception, and signals."""

from __future__ import annotations

import asyncio

import pytest
import requests
import urllib3
from hypothesis import given
from hypothesis import strategies as st

from fcguard.model.failure import TAXONOMY, ErrorType
from fcguard.model.outcome import Signal
from fcguard.recovery.classify import Classified, classify_signal
from fcguard.recovery.classify_database import DRIVER_ERRORS, SQLITE_CODES, SQLSTATES
from fcguard.recovery.classify_http import CLIENT_DEFAULTS, CLIENT_ERRORS, STATUSES
from fcguard.recovery.classify_system import ERRNOS, MCP_CODES, PYTHON_ERRORS, TOOL_PROTOCOL_ERRORS
from tests.recovery.classify_cases import CONNECT, NOW, PROOFS, Response, classify, raised, stable, with_fields

# Tables ---------------------------------------------------------------------------------------------------------

TABLES = [
    STATUSES,
    CLIENT_ERRORS,
    CLIENT_DEFAULTS,
    SQLSTATES,
    SQLITE_CODES,
    DRIVER_ERRORS,
    ERRNOS,
    MCP_CODES,
    TOOL_PROTOCOL_ERRORS,
    PYTHON_ERRORS,
]


@pytest.mark.parametrize("table", TABLES, ids=range(len(TABLES)))
def test_every_row_speaks_the_words_of_the_taxonomy(table):
    for key, answer in table.items():
        assert answer.error_type in TAXONOMY, key
        assert answer.proof in PROOFS, key
        assert answer.reason, key


def test_wrappers_prove_nothing_by_default():
    assert {answer.proof for answer in CLIENT_DEFAULTS.values()} == {"unknown"}


# Words ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (ValueError("bad order"), "ValueError: bad order"),
        (ValueError(), "ValueError"),
        (ValueError("first\nsecond: password=hunter22"), "ValueError: first"),
        (ValueError("\n\n  second\t line  "), "ValueError: second  line"),
        (ValueError("password=hunter22 x"), "ValueError: password=[redacted] x"),
        (ValueError("http://u:hunter22@h/p?key=hunter22 x"), "ValueError: http://u:[redacted]@h/p?… x"),
        (ValueError("key sk-abcdefghijklmnop is wrong"), "ValueError: key [redacted] is wrong"),
        (ValueError("bell \x07 and \ud835"), "ValueError: bell   and"),
        (ValueError("x" * 500), "ValueError: " + "x" * 199 + "…"),
        (KeyError("order_id"), "KeyError: 'order_id'"),
        (TimeoutError("TimeoutError"), "TimeoutError"),
    ],
    ids=lambda part: ascii(part)[:30],
)
def test_message(error, message):
    assert classify(error).message == message


def test_a_library_is_quoted_where_it_says_most():
    error = requests.ConnectionError(urllib3.exceptions.MaxRetryError(None, "/", CONNECT))
    assert classify(error).message.startswith("NewConnectionError: ")


# Totality -------------------------------------------------------------------------------------------------------


class Unwritable(Exception):
    def __str__(self):
        raise RuntimeError


class Hostile(Exception):
    def __getattribute__(self, name):
        raise RuntimeError(name)


class HostileFields(Exception):
    def __getattr__(self, name):
        raise RuntimeError(name)


@pytest.mark.parametrize("kind", [Unwritable, Hostile, HostileFields])
def test_an_exception_that_cannot_be_read_proves_nothing(kind):
    found = classify(kind("x"))
    assert (found.error_type, found.proof) == ("TOOL_ERROR", "unknown")
    assert found.message.startswith(kind.__name__)


anything = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text("a1\n\ud835é", max_size=6), st.binary(max_size=4)
)
fields = st.dictionaries(
    st.sampled_from(
        "args code status status_code http_status response request headers hdrs retry_after reason orig sqlstate pgcode errno "
        "sqlite_errorname history last_attempt error statement os_error".split()
    ),
    st.one_of(anything, st.builds(lambda value: Response(status=value, headers=value, history=value), anything)),
)
bases = st.sampled_from([Exception, OSError, TimeoutError, ConnectionError, RuntimeError, KeyError, BaseException])


@given(
    bases,
    fields,
    st.sampled_from(["tools", "sqlalchemy.exc", "redis.exceptions", "mcp", "urllib3.exceptions", "requests"]),
)
def test_every_exception_has_an_answer(base, attributes, module):
    kind = type("Error", (base,), {"__module__": module})
    error = kind("x")
    for name, value in attributes.items():
        try:
            setattr(error, name, value)
        except (TypeError, AttributeError):
            continue
    found = classify(error)
    assert found.error_type in TAXONOMY
    assert found.proof in PROOFS
    assert found.message.isprintable()
    assert len(found.message) <= 300
    assert found.reason
    assert found.retry_after is None or found.retry_after >= 0


@pytest.mark.parametrize(
    ("error", "error_type"),
    [
        (ValueError("x"), "TOOL_ERROR"),
        (AssertionError(), "TOOL_ERROR"),
        (SystemExit(1), "TOOL_ERROR"),
        (RecursionError(), "TOOL_ERROR"),
        (asyncio.CancelledError(), "CANCELLED"),
        (KeyboardInterrupt(), "CANCELLED"),
        (GeneratorExit(), "CANCELLED"),
        (MemoryError(), "RESOURCE_EXHAUSTED"),
    ],
    ids=stable,
)
def test_plain_python(error, error_type):
    found = classify(raised(error))
    assert (found.error_type, found.proof) == (error_type, "unknown")


# Signals --------------------------------------------------------------------------------------------------------


def test_signal_of_a_response():
    found = classify_signal(Signal("http", "no\nsecond", 422, "POST"), now=NOW)
    assert found == Classified(
        ErrorType.PARAM_INVALID,
        "refused",
        "HTTP 422: no",
        "HTTP 422: the server found the content wrong",
        status=422,
    )
    assert (
        classify_signal(Signal("http", "", 422, None), now=NOW).message
        == "HTTP 422: the server found the content wrong"
    )
    assert classify_signal(Signal("http", "", 422, "GET"), now=NOW).proof == "unknown"
    assert classify_signal(Signal("http", "", 422, "POST", has_history=True), now=NOW).proof == "unknown"
    assert classify_signal(Signal("http", "", 503, "POST", "12"), now=NOW).retry_after == 12.0
    assert classify_signal(Signal("http"), now=NOW).error_type == "RESULT_INVALID"


@given(st.integers(400, 599), st.sampled_from(["POST", "PATCH", None]))
def test_a_returned_response_and_a_raised_one_mean_the_same(status, method):
    signal = classify_signal(Signal("http", "", status, method), now=NOW)
    raised_one = classify(with_fields(status_code=status))
    assert (signal.error_type, signal.proof, signal.status) == (
        raised_one.error_type,
        raised_one.proof,
        raised_one.status,
    )


def test_signal_of_a_process():
    found = classify_signal(Signal("process", "cp: token=abcdefgh denied", 2), now=NOW)
    assert (found.error_type, found.proof, found.status) == ("TOOL_ERROR", "unknown", 2)
    assert found.message == "exit code 2: cp: token=[redacted] denied"
    assert classify_signal(Signal("process", "", -9), now=NOW).message == "exit code -9"


def test_signal_of_an_mcp_tool():
    found = classify_signal(Signal("mcp", "disk full"), now=NOW)
    assert (found.error_type, found.proof, found.message) == ("TOOL_ERROR", "unknown", "disk full")
    assert classify_signal(Signal("mcp"), now=NOW).message == "the MCP tool reported an error"
