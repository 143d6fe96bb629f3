"""Classification of what wraps what: causes, attempts that came before, and what a tool states itself."""

from __future__ import annotations

import httpx
import pytest
import requests
import tenacity
import urllib3

from fcguard.errors import ToolCallFailed
from fcguard.model.failure import ErrorType
from fcguard.model.outcome import NotApplied
from fcguard.model.result import ToolResult
from fcguard.recovery.classify import Classified
from tests.recovery.classify_cases import CONNECT, Response, classify, raised, stable, with_fields

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
