"""Classification by HTTP status: what a status means, where exceptions carry it, and how long to wait."""

from __future__ import annotations

import email.utils

import botocore.exceptions
import httpx
import pytest
import requests

from fcguard.model.failure import TAXONOMY
from fcguard.recovery.classify_http import STATUSES, status_answer
from tests.recovery.classify_cases import NOW, Response, classify, stable, with_fields

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


def aws_error(code, status=400):
    answer = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    return botocore.exceptions.ClientError(answer, "PutItem")


@pytest.mark.parametrize(
    ("code", "status", "error_type", "proof"),
    [
        ("ThrottlingException", 400, "RATE_LIMITED", "unknown"),
        ("ProvisionedThroughputExceededException", 400, "RATE_LIMITED", "unknown"),
        ("SlowDown", 503, "DEPENDENCY_ERROR", "unknown"),
        ("ExpiredTokenException", 400, "PERMISSION_DENIED", "refused"),
        ("AccessDenied", 403, "PERMISSION_DENIED", "refused"),
        ("ConditionalCheckFailedException", 400, "PRECONDITION_FAILED", "refused"),
        ("ResourceInUseException", 400, "PRECONDITION_FAILED", "unknown"),
        ("TransactionConflictException", 400, "DEPENDENCY_ERROR", "refused"),
        ("RequestTimeout", 400, "TIMEOUT", "unknown"),
        ("ServiceQuotaExceededException", 402, "RESOURCE_EXHAUSTED", "refused"),
        ("ValidationException", 400, "PARAM_INVALID", "refused"),
        ("SomethingNew", 409, "PRECONDITION_FAILED", "unknown"),
    ],
)
def test_the_code_of_an_aws_service_says_more_than_its_status(code, status, error_type, proof):
    found = classify(aws_error(code, status))
    assert (found.error_type, found.proof) == (error_type, proof)


def test_whatever_botocore_retries_as_throttling_is_a_rate_limit():
    from botocore.retries.standard import ThrottledRetryableChecker

    codes = ThrottledRetryableChecker._THROTTLED_ERROR_CODES
    assert {classify(aws_error(code)).error_type for code in codes} == {"RATE_LIMITED"}


@pytest.mark.parametrize("answer", [{}, {"Error": {"Code": 5}}, {"Error": {"Code": "SlowDown"}}])
def test_an_answer_of_another_shape_is_left_to_its_status(answer):
    assert classify(botocore.exceptions.ClientError(answer, "PutItem")).error_type in ("TOOL_ERROR", "UNCERTAIN_RESULT")
