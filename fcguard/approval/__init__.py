"""Approval: which calls need a yes, who gives it, and how exactly it is bound to what was shown."""

from fcguard.approval.approvers import Approver, CallbackApprover, ConsoleApprover, Deferred
from fcguard.approval.consult import Approved, Modified, consult, needs_approval, review
from fcguard.approval.grants import ANY, Glob, Grant
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
    "SQLiteApprovals",
    "StoredApproval",
    "consult",
    "needs_approval",
    "review",
]
