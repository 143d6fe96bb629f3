"""Approval of a call by a person or a policy."""
