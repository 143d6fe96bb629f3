"""AWS: what the error codes of services mean that come with status 400, whatever they are about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from fcguard.model.failure import ErrorType
from fcguard.recovery.chain import read
from fcguard.recovery.proof import Answer

__all__ = ["AWS_CODES", "aws_answer"]

_E = ErrorType


def _codes(names: str, answer: Answer) -> dict[str, Answer]:
    return dict.fromkeys(names.split(), answer)


AWS_CODES: Final[dict[str, Answer]] = {
    # The codes that botocore retries as throttling (botocore.retries.standard), and those of single services.
    **_codes(
        "Throttling ThrottlingException ThrottledException RequestThrottledException RequestThrottled TooManyRequestsException "
        "ProvisionedThroughputExceededException TransactionInProgressException RequestLimitExceeded BandwidthLimitExceeded "
        "LimitExceededException SlowDown PriorRequestNotComplete EC2ThrottledException KMSThrottledException ThroughputExceeded",
        Answer(
            _E.RATE_LIMITED,
            "unknown",
            "the service limits the rate; a part may have been counted after the work was done",
        ),
    ),
    **_codes(
        "RequestTimeout RequestTimeoutException RequestExpired",
        Answer(_E.TIMEOUT, "unknown", "the service waited too long for the request"),
    ),
    **_codes(
        "AccessDenied AccessDeniedException UnauthorizedOperation NotAuthorized AuthFailure ExpiredToken ExpiredTokenException "
        "UnrecognizedClientException InvalidClientTokenId IncompleteSignature InvalidSignatureException SignatureDoesNotMatch "
        "MissingAuthenticationToken MissingAuthenticationTokenException OptInRequired",
        Answer(_E.PERMISSION_DENIED, "refused", "the service does not know who is asking, or forbids it"),
    ),
    **_codes(
        "ConditionalCheckFailedException ResourceNotFoundException NoSuchEntity NotFoundException QueueDoesNotExist "
        "AWS.SimpleQueueService.NonExistentQueue",
        Answer(
            _E.PRECONDITION_FAILED, "refused", "a condition of the request does not hold, or there is no such thing"
        ),
    ),
    **_codes(
        "ResourceInUseException ResourceAlreadyExistsException EntityAlreadyExists EntityAlreadyExistsException "
        "IdempotentParameterMismatch IdempotentParameterMismatchException DuplicateRequestException",
        Answer(_E.PRECONDITION_FAILED, "unknown", "the state conflicts; an earlier send of ours may have made it so"),
    ),
    **_codes(
        "TransactionConflictException",
        Answer(_E.DEPENDENCY_ERROR, "refused", "another transaction was under way on the same item"),
    ),
    **_codes(
        "ServiceQuotaExceededException QuotaExceededException InsufficientInstanceCapacity ItemCollectionSizeLimitExceededException",
        Answer(_E.RESOURCE_EXHAUSTED, "refused", "a quota of the account or the service is used up"),
    ),
}
"""Error code of a service -> meaning, where it is a client error (4xx)."""


def aws_answer(error: BaseException) -> Answer | None:
    """Look the error code of botocore's `ClientError` up; None if it has none that is known, or the service failed (5xx)."""
    response = read(error, "response")
    told = response.get("Error") if isinstance(response, Mapping) else None
    code = told.get("Code") if isinstance(told, Mapping) else None
    metadata = response.get("ResponseMetadata") if isinstance(response, Mapping) else None
    status = metadata.get("HTTPStatusCode") if isinstance(metadata, Mapping) else None
    if not isinstance(code, str) or not isinstance(status, int) or not 400 <= status <= 499:
        return None
    return AWS_CODES.get(code)
