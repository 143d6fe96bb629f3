"""Approval: which calls need a yes, who gives it, and how exactly it is bound to what was shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fcguard.lazy import lazy_exports

if TYPE_CHECKING:
    from fcguard.approval.approvers import Approver, CallbackApprover, ConsoleApprover, Deferred
    from fcguard.approval.gate import Approved, Modified, consult, needs_approval, review
    from fcguard.approval.grants import ANY, Glob, Grant
    from fcguard.approval.opening import open_approvals
    from fcguard.approval.postgres import PostgresApprovals
    from fcguard.approval.request import ApprovalRequest, Decision
    from fcguard.approval.sqlite import SQLiteApprovals
    from fcguard.approval.store import ApprovalStore, GrantStore, MemoryApprovals, StoredApproval

__all__ = [
    "ANY",
    "ApprovalRequest",
    "ApprovalStore",
    "Approved",
    "Approver",
    "CallbackApprover",
    "ConsoleApprover",
    "Decision",
    "Deferred",
    "Glob",
    "Grant",
    "GrantStore",
    "MemoryApprovals",
    "Modified",
    "PostgresApprovals",
    "SQLiteApprovals",
    "StoredApproval",
    "consult",
    "needs_approval",
    "open_approvals",
    "review",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "fcguard.approval.approvers": ("Approver", "CallbackApprover", "ConsoleApprover", "Deferred"),
        "fcguard.approval.gate": ("Approved", "Modified", "consult", "needs_approval", "review"),
        "fcguard.approval.grants": ("ANY", "Glob", "Grant"),
        "fcguard.approval.opening": ("open_approvals",),
        "fcguard.approval.postgres": ("PostgresApprovals",),
        "fcguard.approval.request": ("ApprovalRequest", "Decision"),
        "fcguard.approval.sqlite": ("SQLiteApprovals",),
        "fcguard.approval.store": ("ApprovalStore", "GrantStore", "MemoryApprovals", "StoredApproval"),
    },
)
