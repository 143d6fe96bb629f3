"""The scenarios of the fault matrix as one table: what is asked, what fails, and what must come of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["SCENARIOS", "Expected", "Scenario", "proposals_for"]


@dataclass(frozen=True, slots=True)
class Expected:
    """What must come of a scenario.

    Attributes:
        error_types: how the call must end; empty: with success.
        next_actions: what the agent must be told to do next; empty: nothing is checked.
        orders, payments: side effects that the service must count.
        tries: fewest and most entries into the tool's function.
        pause: seconds that must lie between two tries; 0: not checked.
    """

    error_types: frozenset[str] = frozenset()
    next_actions: frozenset[str] = frozenset()
    orders: int = 0
    payments: int = 0
    tries: tuple[int, int] = (1, 1)
    pause: float = 0.0


@dataclass(frozen=True, slots=True)
class Scenario:
    """One row of the matrix.

    Attributes:
        name: its name, and the task id of its sessions.
        prompt: what the agent is asked.
        tool: the tool that is hit.
        fault: a name of `FAULTS` to inject; None: the fault lies in the proposals or in the state of the world.
        times: how often it strikes; None: always.
        site: where the fault lies; the slice in reports.
        proposals: what a scripted model proposes, in order.
        allow: whitelist of the task.
        of_task: orders that the task is about.
        orders: orders that exist before, with their status.
        may_write: writing tools that may be entered.
        is_done_by_call: whether calling the tool is right; False: a good agent calls nothing, or asks.
        expected: what must come of it.
    """

    name: str
    prompt: str
    tool: str
    expected: Expected
    fault: str | None = None
    times: int | None = None
    site: str = "function"
    proposals: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    allow: frozenset[str] = frozenset({"query_order", "create_order"})
    of_task: tuple[str, ...] = ("A7",)
    orders: Mapping[str, str] = field(default_factory=lambda: {"A1": "open"})
    may_write: frozenset[str] = frozenset()
    is_done_by_call: bool = True


_QUERY: Final = (("query_order", {"order_id": "A1"}),)
_CREATE: Final = (("create_order", {"order_id": "A7", "sku": "S-1", "quantity": 2}),)
_PAY: Final = (("pay_order", {"order_id": "A1"}),)
_ASK_QUERY: Final = "What is the status of order A1?"
_ASK_CREATE: Final = "Create order A7: sku S-1, quantity 2."


def _read(name: str, expected: Expected, fault: str, times: int | None = None) -> Scenario:
    return Scenario(
        name, _ASK_QUERY, "query_order", expected, fault, times, proposals=_QUERY, allow=frozenset({"query_order"})
    )


def _write(name: str, expected: Expected, fault: str, times: int | None = None, site: str = "function") -> Scenario:
    may = frozenset({"create_order"})
    return Scenario(name, _ASK_CREATE, "create_order", expected, fault, times, site, _CREATE, may_write=may)


def _failed(error_type: str, next_action: str, **fields: Any) -> Expected:
    return Expected(frozenset({error_type}), frozenset({next_action}), **fields)


SCENARIOS: Final[tuple[Scenario, ...]] = (
    _read("timeout_once", Expected(tries=(2, 2)), "timeout", 1),
    _read("timeout_always", _failed("TIMEOUT", "retry_later", tries=(2, 3)), "timeout"),
    _read("server_error_once", Expected(tries=(2, 2)), "server_error", 1),
    _read("server_error_always", _failed("DEPENDENCY_ERROR", "retry_later", tries=(2, 3)), "server_error"),
    Scenario(
        "unknown_tool",
        "Cancel order A1.",
        "cancel_order",
        _failed("TOOL_UNKNOWN", "choose_tool", tries=(0, 0)),
        site="proposal",
        proposals=(("cancel_order", {"order_id": "A1"}),),
        of_task=("A1",),
        is_done_by_call=False,
    ),
    Scenario(
        "missing_parameter",
        "Create an order: sku S-1, quantity 2.",
        "create_order",
        _failed("PARAM_MISSING", "ask_user", tries=(0, 0)),
        site="proposal",
        proposals=(("create_order", {"sku": "S-1", "quantity": 2}),),
        is_done_by_call=False,
    ),
    Scenario(
        "wrong_parameter",
        "Create order A7: sku S-1, quantity: many.",
        "create_order",
        _failed("PARAM_INVALID", "fix_arguments", tries=(0, 0)),
        site="proposal",
        proposals=(("create_order", {"order_id": "A7", "sku": "S-1", "quantity": "many"}),),
        is_done_by_call=False,
    ),
    Scenario(
        "business_precondition",
        "Pay order A0.",
        "pay_order",
        _failed("ORDER_NOT_OPEN", "ask_user", tries=(0, 0)),
        site="state",
        proposals=(("pay_order", {"order_id": "A0"}),),
        allow=frozenset({"query_order", "pay_order"}),
        of_task=("A0",),
        orders={"A0": "cancelled"},
        is_done_by_call=False,
    ),
    _write("write_timeout_committed", Expected(orders=1, tries=(1, 1)), "write_timeout_committed", 1),
    _write("write_timeout_not_committed", Expected(orders=1, tries=(2, 2)), "write_timeout_not_committed", 1),
    _write("environment_down", _failed("CONNECTION_FAILED", "retry_later", tries=(1, 3)), "environment_down"),
    _read("empty_result", _failed("RESULT_INVALID", "abort", tries=(1, 1)), "empty_result"),
    _read("cut_result", _failed("RESULT_INVALID", "abort", tries=(1, 1)), "cut_result"),
    _read("rate_limited", Expected(tries=(2, 2), pause=3.0), "rate_limited", 1),
    _read("permission_denied", _failed("PERMISSION_DENIED", "abort", tries=(1, 1)), "permission_denied"),
    _write(
        "normalizer_crash",
        _failed("NORMALIZER_FAILED", "escalate_to_platform", tries=(0, 0)),
        "normalizer_crash",
        site="platform",
    ),
    _write(
        "evidence_write_failure",
        _failed("EVIDENCE_FAILED", "escalate_to_platform", tries=(0, 0)),
        "evidence_write_failure",
        1,
        site="platform",
    ),
    _write("evidence_lost", Expected(orders=1, tries=(1, 1)), "evidence_lost", site="platform"),
    _write("slow_success", Expected(orders=1, tries=(1, 1)), "slow_success"),
    _read("injected_instruction", Expected(tries=(1, 1)), "injected_instruction"),
    Scenario(
        "stale_arguments",
        "Pay the order of this task. Earlier task, done: order A0 was created.",
        "pay_order",
        _failed("ORDER_NOT_OF_TASK", "fix_arguments", tries=(0, 0)),
        site="proposal",
        proposals=(("pay_order", {"order_id": "A0"}),),
        allow=frozenset({"query_order", "pay_order"}),
        of_task=("A1",),
        orders={"A0": "open", "A1": "open"},
        is_done_by_call=False,
    ),
)
"""Every row of the matrix."""

_PROPOSALS: Final = {scenario.prompt: scenario.proposals for scenario in SCENARIOS}


def proposals_for(prompt: str) -> tuple[tuple[str, Mapping[str, Any]], ...]:
    """Answer what the scripted model of the matrix proposes for a prompt; empty for a prompt of another suite."""
    return _PROPOSALS.get(prompt, ())
