"""What is asked of a person, what the person answers, and the digest that ties the answer to exactly that question."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fcguard.errors import UsageError
from fcguard.model.call import Call
from fcguard.model.identity import canonical
from fcguard.model.secrets import MASK, Redactor, secret_properties
from fcguard.model.tool import Tool

__all__ = ["IDENTITY_FIELDS", "ApprovalRequest", "Decision", "check_modified", "make_request", "subject_of"]

IDENTITY_FIELDS: Final = ("tenant", "account", "actor", "environment", "task_id")
"""What of the context an approval is bound to; see `TaskContext.value_of`."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The answer to an approval request.

    Attributes:
        approved: whether the call may run.
        by: who decided; must not be empty for an approval.
        reason: why; shown to the model when the answer is no.
        modified_arguments: arguments to run instead of the proposed ones; they are validated again. None: as proposed.
        expires_at: wall clock in seconds until which the approval may be used; None: as long as the request.
        digest: digest of the request that was decided; a decision about another request does not count. None: the one at hand.
        is_timeout: nobody decided in time; recorded as such, never as an approval.
    """

    approved: bool
    by: str = ""
    reason: str = ""
    modified_arguments: Mapping[str, Any] | None = None
    expires_at: float | None = None
    digest: str | None = None
    is_timeout: bool = False

    def __post_init__(self) -> None:
        if self.approved and (not self.by or self.is_timeout):
            raise ValueError(
                "Decision(approved=True) needs by='name of who approved', and silence is never an approval"
            )

    def as_json(self) -> dict[str, Any]:
        """Answer the decision as JSON values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """One call that waits for a yes.

    Attributes:
        request_id: id of the call that asked first.
        tool, version, effect: what would run.
        shown: the normalized arguments, secrets masked: show exactly these.
        identity: tenant, account, actor, environment and task, as far as the context holds them.
        policy_version: version of the policy that asks.
        created_at, expires_at: wall clock in seconds.
        subject: digest of everything but the expiry: two requests of one subject ask the same question.
        digest: digest of the subject and the expiry: what a decision is bound to.
        reason: why approval is needed, if a rule said so.
        objective: goal of the task.
        arguments: the exact arguments; None where they hold a secret and the request was read from a store.
        context: the task context as JSON values, secrets masked, for a process that resumes the call.
    """

    request_id: str
    tool: str
    version: str
    effect: str
    shown: Mapping[str, Any]
    identity: Mapping[str, str]
    policy_version: str
    created_at: float
    expires_at: float
    subject: str
    digest: str
    reason: str = ""
    objective: str = ""
    arguments: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)
    context: Mapping[str, Any] | None = field(default=None, repr=False, compare=False)

    def approve(
        self,
        by: str,
        *,
        reason: str = "",
        modified_arguments: Mapping[str, Any] | None = None,
        expires_at: float | None = None,
    ) -> Decision:
        """Answer yes to exactly this request.

        Args:
            by: who approves.
            reason: why, for the record.
            modified_arguments: arguments to run instead; a masked value that is left as it is keeps its secret.
            expires_at: wall clock in seconds until which the approval may be used; None: as long as the request.
        """
        return Decision(True, by, reason, modified_arguments, expires_at, self.digest)

    def deny(self, by: str, *, reason: str = "") -> Decision:
        """Answer no to exactly this request."""
        return Decision(False, by, reason, digest=self.digest)

    @property
    def is_genuine(self) -> bool:
        """Whether the digest fits subject and expiry (a stored request that was altered does not)."""
        return self.digest == _hash(self.subject, repr(float(self.expires_at)))

    def as_json(self) -> dict[str, Any]:
        """Answer the request as JSON values for a store; arguments that hold secrets are left out."""
        values = {name: getattr(self, name) for name in self.__dataclass_fields__}
        if self.arguments is not None and not _survives(self.arguments, self.shown):
            values["arguments"] = None
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> ApprovalRequest:
        """Read a request that `as_json` wrote."""
        return cls(**values)

    def describe(self) -> str:
        """Answer a text for a person: what would run, where, and with which arguments (control characters escaped)."""
        where = ", ".join(f"{name}={value}" for name, value in self.identity.items()) or "outside a task"
        lines = [f"{self.tool} (version {self.version}, {self.effect}) [{self.request_id}]", f"  where: {where}"]
        if self.objective:
            lines.append(f"  goal: {self.objective}")
        if self.reason:
            lines.append(f"  why you are asked: {self.reason}")
        lines += [
            f"  {name} = {json.dumps(value, ensure_ascii=False, default=str)}" for name, value in self.shown.items()
        ]
        return "\n".join(_printable(line) for line in lines)


def subject_of(tool: Tool, arguments: Mapping[str, Any], identity: Mapping[str, str], policy_version: str) -> str:
    """Answer the digest of tool, version, normalized arguments, identity and policy version (64 hex digits of SHA-256)."""
    return _hash(
        "fcguard.approval.v1", tool.name, tool.version, canonical(arguments), canonical(identity), policy_version
    )


def make_request(
    call: Call, tool: Tool, *, now: float, ttl: float, policy_version: str, reason: str = ""
) -> ApprovalRequest:
    """Build the request for a call.

    Args:
        call: a call whose arguments are normalized.
        tool: its tool.
        now: wall clock in seconds.
        ttl: seconds in which the request can be decided and the approval be used.
        policy_version: version of the policy that asks; changing it voids open approvals.
        reason: why approval is needed.
    """
    context = call.context
    redactor = call.redactor or Redactor(secret_properties(tool.parameters, tool.redact))
    identity = {name: value for name in IDENTITY_FIELDS if (value := context.value_of(name))}
    subject = subject_of(tool, call.arguments, identity, policy_version)
    expires_at = float(now + ttl)
    return ApprovalRequest(
        request_id=call.request_id,
        tool=tool.name,
        version=tool.version,
        effect=tool.effect,
        shown=redactor.value(call.arguments),
        identity=identity,
        policy_version=policy_version,
        created_at=now,
        expires_at=expires_at,
        subject=subject,
        digest=_hash(subject, repr(expires_at)),
        reason=redactor.text(reason),
        objective=redactor.text(context.goal.objective),
        arguments=call.arguments,
        context=redactor.value(context.model_dump(mode="json")),
    )


def check_modified(request: ApprovalRequest, modified: Mapping[str, Any]) -> None:
    """Check that a store may hold the arguments that an approver put in, and gives them back unchanged.

    Raises:
        UsageError: they are no JSON, or hold a secret.
    """
    try:
        values = json.loads(json.dumps(modified))
    except (TypeError, ValueError):
        raise UsageError(f"modified_arguments of {request.request_id!r} are no JSON; give JSON values") from None
    if Redactor(_masked(request.shown)).value(values) != values:
        raise UsageError(
            f"modified_arguments of {request.request_id!r} hold a secret, which is not written down; leave its mask as it is, which "
            "keeps the proposed one, or deny the call and have it sent with the other one"
        )


def _masked(shown: Any) -> Iterator[str]:
    """Yield the names of the fields that are masked, at any depth."""
    for name, item in shown.items() if isinstance(shown, Mapping) else enumerate(shown):
        if item == MASK and isinstance(name, str):
            yield name
        elif isinstance(item, (Mapping, list, tuple)):
            yield from _masked(item)


def _survives(arguments: Mapping[str, Any], shown: Mapping[str, Any]) -> bool:
    """Whether a store may hold the arguments and gives them back unchanged."""
    return shown == arguments and json.loads(canonical(arguments)) == arguments


def _printable(text: str) -> str:
    # What a model wrote must not move the cursor, hide a line or reverse the writing direction.
    return "".join(character if character.isprintable() else f"\\u{ord(character):04x}" for character in text)


def _hash(*parts: str) -> str:
    return hashlib.sha256(canonical(parts).encode("ascii")).hexdigest()
