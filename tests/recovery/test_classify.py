"""Classification by what an exception says of itself and of what it wraps."""

from __future__ import annotations

import asyncio
import email.utils

import botocore.exceptions
import httpx
import pytest
import requests
import tenacity
import urllib3
from hypothesis import given
from hypothesis import strategies as st

from fcguard.errors import ToolCallFailed
from fcguard.model.failure import TAXONOMY, ErrorType
from fcguard.model.outcome import NotApplied, Signal
from fcguard.model.result import ToolResult
from fcguard.recovery.classify import Classified, classify_exception, classify_signal
from fcguard.recovery.classify_database import DRIVER_ERRORS, SQLITE_CODES, SQLSTATES
from fcguard.recovery.classify_http import CLIENT_DEFAULTS, CLIENT_ERRORS, STATUSES, status_answer
from fcguard.recovery.classify_system import ERRNOS, MCP_CODES, PYTHON_ERRORS, TOOL_PROTOCOL_ERRORS


def stable(value: object) -> str | None:
    """Name a case the same in every process: a text by itself, anything else by its number."""
    return value[:40] if isinstance(value, str) else None


NOW = 1_800_000_000.0
PROOFS = {"not_sent", "refused", "unknown"}


def classify(error):
    return classify_exception(error, now=NOW)


def raised(error, cause=None, context=None):
    """Raise an exception for real and catch it again."""
    try:
        if context is not None:
            try:
                raise context
            except BaseException:
                raise error  # noqa: B904
        elif cause is not None:
            raise error from cause
        raise error
    except BaseException as caught:
        return caught


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


DOUBTFUL = {408, 409, 425, 429}


@pytest.mark.parametrize("status", range(600))
def test_every_status_has_an_answer_and_only_a_plain_client_error_is_a_refusal(status):
    answer = status_answer(status)
    assert answer.error_type in TAXONOMY
    if answer.proof != "unknown":
        assert 400 <= status < 500
        assert answer.proof == "refused"
        assert status not in DOUBTFUL
        assert status in STATUSES


@pytest.mark.parametrize(
    ("status", "error_type"),
    [
        (400, "PARAM_INVALID"),
        (401, "PERMISSION_DENIED"),
        (403, "PERMISSION_DENIED"),
        (404, "PRECONDITION_FAILED"),
        (409, "PRECONDITION_FAILED"),
        (410, "PRECONDITION_FAILED"),
        (412, "PRECONDITION_FAILED"),
        (413, "PARAM_INVALID"),
        (418, "TOOL_ERROR"),
        (422, "PARAM_INVALID"),
        (425, "DEPENDENCY_ERROR"),
        (429, "RATE_LIMITED"),
        (408, "TIMEOUT"),
        (499, "TOOL_ERROR"),
        (500, "DEPENDENCY_ERROR"),
        (502, "DEPENDENCY_ERROR"),
        (503, "DEPENDENCY_ERROR"),
        (504, "DEPENDENCY_ERROR"),
        (507, "RESOURCE_EXHAUSTED"),
        (529, "DEPENDENCY_ERROR"),
        (302, "TOOL_ERROR"),
        (200, "RESULT_INVALID"),
    ],
)
def test_meaning_of_a_status(status, error_type):
    assert status_answer(status).error_type == error_type


# Statuses that exceptions carry ---------------------------------------------------------------------------------


def with_fields(**fields):
    return type("ServiceError", (Exception,), fields)("it failed")


class Response:
    def __init__(self, **fields):
        self.__dict__.update(fields)

    def __bool__(self):
        return False


@pytest.mark.parametrize(
    "fields",
    [
        {"status_code": 422},
        {"status": 422},
        {"http_status": 422},
        {"response": Response(status_code=422)},
        {"response": Response(status=422)},
        {"response": {"ResponseMetadata": {"HTTPStatusCode": 422}}},
        {"code": 422, "headers": {}},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_status_is_found_by_its_name(fields):
    found = classify(with_fields(**fields))
    assert (found.error_type, found.proof, found.status) == ("PARAM_INVALID", "refused", 422)


@pytest.mark.parametrize(
    "fields",
    [
        {"code": 422},
        {"code": "422", "headers": {}},
        {"status_code": True},
        {"status_code": "422"},
        {"status": 1},
        {"status_code": 42200},
        {"status": "failed"},
        {"response": {"status": 422}},
    ],
    ids=stable,
)
def test_what_is_no_status_proves_nothing(fields):
    found = classify(with_fields(**fields))
    assert (found.error_type, found.proof, found.status) == ("TOOL_ERROR", "unknown", None)


def test_the_words_of_the_server_go_before_those_of_the_client():
    request = httpx.Request("POST", "http://orders.test/orders?token=abcdefgh")
    response = httpx.Response(422, json={"detail": "order_id: not a number"}, request=request)
    error = httpx.HTTPStatusError(
        "422 for http://orders.test/orders?token=abcdefgh", request=request, response=response
    )
    assert classify(error).message == "HTTP 422: order_id: not a number"
    plain = httpx.Response(403, text="not yours\nsecond line", request=request)
    assert classify(httpx.HTTPStatusError("no", request=request, response=plain)).message == "HTTP 403: not yours"
    silent = httpx.Response(403, text="<html>no</html>", request=request)
    assert (
        classify(httpx.HTTPStatusError("no?a=b", request=request, response=silent)).message == "HTTPStatusError: no?…"
    )
    unread = httpx.Response(403, stream=httpx.ByteStream(b"x"), request=request)
    assert classify(httpx.HTTPStatusError("no", request=request, response=unread)).message == "HTTPStatusError: no"


def test_asking_for_the_words_never_reads_from_the_network():
    response = requests.Response()
    response.status_code = 422
    response.raw = property(lambda _: pytest.fail("read from the network"))
    found = classify(requests.HTTPError("no", response=response))
    assert (found.proof, found.message) == ("refused", "HTTPError: no")
    response._content, response._content_consumed = b'{"message": "why"}', True
    assert classify(requests.HTTPError("no", response=response)).message == "HTTP 422: why"


def test_botocore_says_status_reason_and_retries():
    answer = {
        "Error": {"Code": "X", "Message": "no such queue"},
        "ResponseMetadata": {"HTTPStatusCode": 400, "RetryAttempts": 0},
    }
    found = classify(botocore.exceptions.ClientError(answer, "SendMessage"))
    assert (found.proof, found.message) == ("refused", "HTTP 400: no such queue")
    answer["ResponseMetadata"]["RetryAttempts"] = 1
    assert classify(botocore.exceptions.ClientError(answer, "SendMessage")).proof == "unknown"


def test_a_get_proves_nothing_about_a_write():
    request = httpx.Request("GET", "http://orders.test/orders/1")
    found = classify(httpx.HTTPStatusError("no", request=request, response=httpx.Response(404, request=request)))
    assert (found.error_type, found.proof) == ("PRECONDITION_FAILED", "unknown")
    assert "GET" in found.reason
    assert classify(httpx.ConnectError("no", request=request)).proof == "unknown"


# Retry-After ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({"headers": {"Retry-After": "30"}}, 30.0),
        ({"headers": {"retry-after": " 1.5 "}}, 1.5),
        ({"headers": {"Retry-After": email.utils.formatdate(NOW + 90, usegmt=True)}}, 90.0),
        ({"headers": {"Retry-After": email.utils.formatdate(NOW - 90, usegmt=True)}}, 0.0),
        ({"headers": {"Retry-After-Ms": "250", "Retry-After": "9"}}, 0.25),
        ({"response": Response(status_code=429, headers={"Retry-After": "7"})}, 7.0),
        ({"response": {"ResponseMetadata": {"HTTPStatusCode": 429, "HTTPHeaders": {"retry-after": "5"}}}}, 5.0),
        ({"retry_after": 3}, 3.0),
        ({"retry_after": 0}, 0.0),
        ({"retry_after": True}, None),
        ({"retry_after": float("nan")}, None),
        ({"retry_after": -1}, None),
        ({"headers": {"Retry-After": "-1"}}, None),
        ({"headers": {"Retry-After": "soon"}}, None),
        ({"headers": {"Retry-After": "nan"}}, None),
        ({"headers": {"Retry-After": "9" * 400}}, None),
        ({"headers": {"Retry-After": "٣٠"}}, None),
        ({"headers": {}}, None),
        ({"headers": 5}, None),
        ({}, None),
    ],
    ids=stable,
)
def test_how_long_the_other_side_asks_to_wait(fields, seconds):
    found = classify(with_fields(status_code=429, **fields))
    assert (found.error_type, found.proof, found.retry_after) == ("RATE_LIMITED", "unknown", seconds)


def test_headers_that_cannot_be_read_are_no_headers():
    class Headers:
        def items(self):
            raise RuntimeError

    assert classify(with_fields(status_code=429, headers=Headers())).retry_after is None


# What wraps what ------------------------------------------------------------------------------------------------


def connect_error():
    return raised(httpx.ConnectError("refused", request=httpx.Request("POST", "http://orders.test/")))


def read_timeout():
    return raised(httpx.ReadTimeout("late", request=httpx.Request("POST", "http://orders.test/")))


class OrderServiceDown(Exception):
    pass


def test_an_explicit_cause_is_the_same_failure():
    found = classify(raised(OrderServiceDown("no orders today"), cause=connect_error()))
    assert (found.error_type, found.proof) == ("CONNECTION_FAILED", "not_sent")
    assert found.message == "OrderServiceDown: no orders today"
    assert found.reason.startswith("ConnectError: ")
    assert classify(raised(OrderServiceDown(), cause=read_timeout())).proof == "unknown"


def test_what_was_being_handled_gives_the_kind_but_no_proof():
    found = classify(raised(OrderServiceDown("no"), context=connect_error()))
    assert (found.error_type, found.proof) == ("CONNECTION_FAILED", "unknown")
    assert "ConnectError" in found.reason
    assert classify(raised(KeyError("id"), context=connect_error())).error_type == "TOOL_ERROR"
    assert classify(raised(OrderServiceDown("no"), context=ValueError("x"))).error_type == "TOOL_ERROR"


def test_a_hidden_context_gives_nothing():
    def tool():
        try:
            raise connect_error()
        except httpx.ConnectError:
            raise OrderServiceDown from None

    with pytest.raises(OrderServiceDown) as caught:
        tool()
    assert classify(caught.value).error_type == "TOOL_ERROR"


def test_an_unsettled_error_before_it_withdraws_the_proof():
    found = classify(raised(connect_error(), context=read_timeout()))
    assert (found.error_type, found.proof) == ("CONNECTION_FAILED", "unknown")
    assert "ReadTimeout" in found.reason
    assert classify(raised(with_fields(status_code=422), context=read_timeout())).proof == "unknown"
    assert classify(raised(connect_error(), context=connect_error())).proof == "not_sent"
    assert classify(raised(connect_error(), context=ValueError("x"))).proof == "not_sent"
    refused = ConnectionRefusedError(111, "refused")
    assert classify(raised(refused, context=ConnectionResetError(104, "reset"))).proof == "unknown"
    assert classify(raised(refused, context=ConnectionRefusedError(111, "refused"))).proof == "not_sent"


def test_the_layers_of_requests_and_urllib3():
    inner = urllib3.exceptions.NewConnectionError(None, "refused")
    retry = urllib3.exceptions.MaxRetryError(None, "/orders", inner)
    assert classify(requests.ConnectionError(retry)).proof == "not_sent"
    lost = urllib3.exceptions.ProtocolError("lost", ConnectionResetError(104, "reset"))
    assert classify(requests.ConnectionError(lost)).proof == "unknown"
    assert classify(requests.ConnectionError("no words")).error_type == "CONNECTION_FAILED"
    assert classify(requests.Timeout("late")).error_type == "TIMEOUT"
    assert classify(requests.ConnectTimeout("late")).proof == "not_sent"
    assert classify(requests.ReadTimeout("late")).proof == "unknown"
    too_many = urllib3.exceptions.MaxRetryError(None, "/", urllib3.exceptions.ResponseError("too many 503"))
    assert classify(requests.exceptions.RetryError(too_many)).error_type == "DEPENDENCY_ERROR"


def test_the_proof_does_not_depend_on_how_deep_the_stack_is():
    def send(depth):
        if depth:
            send(depth - 1)
        passing_on = passing("urllib3.util.retry", "increment", new_retry=Retry(None, CONNECT))
        raise passing_on

    with pytest.raises(httpx.ConnectError) as caught:
        send(500)
    assert classify(caught.value).proof == "unknown"


def test_very_many_errors_before_it_withdraw_the_proof():
    error = connect_error()
    for _ in range(300):
        error = raised(connect_error(), context=error)
    assert classify(error).proof == "unknown"
    assert classify(raised(connect_error(), context=connect_error())).proof == "not_sent"


def test_a_cycle_of_causes_ends():
    first, second = OrderServiceDown("a"), OrderServiceDown("b")
    first.__cause__, second.__cause__ = second, first
    assert classify(first).error_type == "TOOL_ERROR"
    lost = connect_error()
    first.__cause__, lost.__context__ = lost, first
    assert classify(first).proof == "not_sent"


def test_a_group_proves_nothing_for_its_other_tasks_may_have_done_their_part():
    group = ExceptionGroup("tasks", [connect_error(), ValueError("x")])
    found = classify(group)
    assert (found.error_type, found.proof) == ("CONNECTION_FAILED", "unknown")
    assert "2 tasks" in found.reason
    assert classify(raised(OrderServiceDown("x"), cause=group)).error_type == "TOOL_ERROR"


# Attempts that came before --------------------------------------------------------------------------------------


def tenacity_error(attempts):
    @tenacity.retry(stop=tenacity.stop_after_attempt(attempts), wait=tenacity.wait_none())
    def send():
        raise connect_error()

    with pytest.raises(tenacity.RetryError) as caught:
        send()
    return caught.value


def test_the_error_of_tenacity_tells_how_often_it_tried():
    assert classify(tenacity_error(1)).proof == "not_sent"
    assert classify(tenacity_error(2)).proof == "unknown"
    assert classify(tenacity.RetryError(None)).error_type == "TOOL_ERROR"
    assert classify(tenacity.RetryError(5)).error_type == "TOOL_ERROR"


def passing(module, function, **names):
    """Raise a connection error through a function of a module as a library would."""
    lines = [f"def {function}(error, {', '.join(names)}):", "    raise error"]
    space = {"__name__": module}
    exec("\n".join(lines), space)
    with pytest.raises(httpx.ConnectError) as caught:
        space[function](httpx.ConnectError("refused"), **names)
    return caught.value


class Retry:
    __module__ = "urllib3.util.retry"

    def __init__(self, *errors):
        self.history = tuple(Response(error=error) for error in errors)


CONNECT = urllib3.exceptions.NewConnectionError(None, "refused")
LAYERS = [
    ("urllib3.util.retry", "increment", {"new_retry": Retry(CONNECT)}, "not_sent"),
    ("urllib3.util.retry", "increment", {"new_retry": Retry(CONNECT, CONNECT)}, "not_sent"),
    ("urllib3.util.retry", "increment", {"new_retry": Retry(None, CONNECT)}, "unknown"),
    ("urllib3.util.retry", "increment", {"new_retry": Retry(ValueError(), CONNECT), "old": Retry()}, "unknown"),
    ("urllib3.util.retry", "increment", {"renamed": 1}, "unknown"),
    ("urllib3.connectionpool", "urlopen", {"method": "POST"}, "not_sent"),
    ("urllib3.connectionpool", "urlopen", {"method": "GET"}, "unknown"),
    ("urllib3.connectionpool", "urlopen", {"method": None}, "not_sent"),
    ("aiohttp.client", "_request", {"history": [], "method": "POST", "retry_persistent_connection": False}, "not_sent"),
    ("aiohttp.client", "_request", {"history": [], "method": "PUT", "retry_persistent_connection": True}, "not_sent"),
    ("aiohttp.client", "_request", {"history": [], "method": "PUT", "retry_persistent_connection": False}, "unknown"),
    ("aiohttp.client", "_request", {"history": [1], "method": "POST"}, "unknown"),
    ("botocore.endpoint", "_send_request", {"attempts": 1}, "not_sent"),
    ("botocore.endpoint", "_send_request", {"attempts": 2}, "unknown"),
    ("botocore.endpoint", "_send_request", {"renamed": 2}, "unknown"),
    ("redis.retry", "call_with_retry", {"failures": 1}, "not_sent"),
    ("redis.asyncio.retry", "call_with_retry", {"failures": 2}, "unknown"),
    ("backoff._sync", "retry", {"tries": 2}, "unknown"),
    ("tenacity", "__call__", {"retry_state": Response(attempt_number=1)}, "not_sent"),
    ("tenacity", "__iter__", {"retry_state": Response(attempt_number=2)}, "unknown"),
    ("tenacity.asyncio", "wrapped_f", {"retry_state": None}, "not_sent"),
    ("retrying", "call", {"attempt": 1}, "unknown"),
    ("google.api_core.retry.retry_unary", "retry_target", {"target": 1}, "unknown"),
    ("urllib.request", "do_open", {"req": Response(get_method=lambda: "GET")}, "unknown"),
    ("urllib.request", "do_open", {"req": Response(get_method=lambda: "POST")}, "not_sent"),
    ("urllib.request", "do_open", {"req": 5}, "not_sent"),
    ("urllib.request", "do_open", {"req": None}, "not_sent"),
    ("my.tool", "send", {"method": "GET"}, "not_sent"),
]


@pytest.mark.parametrize(("module", "function", "names", "proof"), LAYERS, ids=stable)
def test_a_layer_that_tried_before_withdraws_the_proof(module, function, names, proof):
    assert classify(passing(module, function, **names)).proof == proof


@pytest.mark.parametrize(
    ("headers", "proof"),
    [
        ({"x-stainless-retry-count": "0"}, "not_sent"),
        ({"x-stainless-retry-count": "1"}, "unknown"),
        ({"x-stainless-retry-count": "x"}, "unknown"),
        ({}, "not_sent"),
    ],
    ids=stable,
)
def test_the_sdks_count_their_attempts_in_a_header(headers, proof):
    request = httpx.Request("POST", "http://model.test/", headers=headers)
    assert classify(httpx.ConnectError("refused", request=request)).proof == proof


def test_answers_before_the_answer_withdraw_the_proof():
    for response in (
        Response(status_code=422, history=[1]),
        Response(status_code=422, raw=Response(retries=Response(history=(1,)))),
        Response(status=422, retries=Response(history=(1,))),
    ):
        assert classify(with_fields(response=response)).proof == "unknown"
    assert classify(with_fields(status_code=422, history=(1,))).proof == "unknown"


# What a tool states itself --------------------------------------------------------------------------------------


def test_a_tool_that_knows_that_nothing_happened():
    found = classify(raised(NotApplied("the shop is closed, token=abcdefgh")))
    assert (found.error_type, found.proof) == ("DEPENDENCY_ERROR", "refused")
    assert found.message == "the shop is closed, token=[redacted]"
    found = classify(raised(NotApplied(), cause=read_timeout()))
    assert (found.error_type, found.proof, found.message) == ("TIMEOUT", "refused", "nothing happened")
    limited = with_fields(status_code=429, retry_after=5)
    assert classify(raised(NotApplied(), cause=limited)).retry_after == 5.0
    assert classify(raised(NotApplied("a"), cause=NotApplied("b"))).error_type == "DEPENDENCY_ERROR"


def inner_result(error_type, **fields):
    names = dict.fromkeys(ToolResult.__dataclass_fields__)
    return ToolResult(
        **{**names, "success": False, "tool_name": "query_order", "message": "no", "error_type": error_type, **fields}
    )


def test_an_inner_call_that_failed_proves_nothing():
    found = classify(ToolCallFailed(inner_result("TIMEOUT", retry_after=2.0)))
    assert (found.error_type, found.proof, found.retry_after) == ("TIMEOUT", "unknown", 2.0)
    assert found.message == "query_order: no"
    for error_type in ("PARAM_INVALID", "OWN_CODE", "UNCERTAIN_RESULT"):
        assert classify(ToolCallFailed(inner_result(error_type, retry_after=2.0))) == Classified(
            ErrorType.TOOL_ERROR,
            "unknown",
            "query_order: no",
            f"the inner call of query_order failed with {error_type}",
        )


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
