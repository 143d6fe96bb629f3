"""Business rules: small callables `(call) -> None | Violation`, and combinators over them.

The transports that check redirects and resolved addresses are in `fcguard.rules.transport`, which needs httpx.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fcguard.lazy import lazy_exports

if TYPE_CHECKING:
    from fcguard.rules.allowed import allowed_values
    from fcguard.rules.base import BaseRule, all_of, any_of, check_rule, is_async, not_, rule_name, when
    from fcguard.rules.breadth import not_too_broad
    from fcguard.rules.command import shell
    from fcguard.rules.database import sql
    from fcguard.rules.environments import only_in
    from fcguard.rules.expressions import expression
    from fcguard.rules.filesystem import paths
    from fcguard.rules.host_rule import hosts
    from fcguard.rules.identities import account_matches, tenant_matches
    from fcguard.rules.ownership import owned_by
    from fcguard.rules.parameters import ParameterRule, refusal
    from fcguard.rules.permissions import requires_role
    from fcguard.rules.preconditions import requires
    from fcguard.rules.protocols import Rule, RuleCall, RuleTool, Verdict
    from fcguard.rules.search_scopes import search_scope
    from fcguard.rules.table import RuleRow, rules_markdown, rules_table
    from fcguard.rules.task_policy import not_forbidden, tool_allowed, write_permitted
    from fcguard.rules.trial import ask_rule
    from fcguard.rules.vocabulary import CHINESE, ENGLISH, SearchVocabulary

__all__ = [
    "CHINESE",
    "ENGLISH",
    "BaseRule",
    "ParameterRule",
    "Rule",
    "RuleCall",
    "RuleRow",
    "RuleTool",
    "SearchVocabulary",
    "Verdict",
    "account_matches",
    "all_of",
    "allowed_values",
    "any_of",
    "ask_rule",
    "check_rule",
    "expression",
    "hosts",
    "is_async",
    "not_",
    "not_forbidden",
    "not_too_broad",
    "only_in",
    "owned_by",
    "paths",
    "refusal",
    "requires",
    "requires_role",
    "rule_name",
    "rules_markdown",
    "rules_table",
    "search_scope",
    "shell",
    "sql",
    "tenant_matches",
    "tool_allowed",
    "when",
    "write_permitted",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "fcguard.rules.allowed": ("allowed_values",),
        "fcguard.rules.base": ("BaseRule", "all_of", "any_of", "check_rule", "is_async", "not_", "rule_name", "when"),
        "fcguard.rules.breadth": ("not_too_broad",),
        "fcguard.rules.command": ("shell",),
        "fcguard.rules.database": ("sql",),
        "fcguard.rules.environments": ("only_in",),
        "fcguard.rules.expressions": ("expression",),
        "fcguard.rules.filesystem": ("paths",),
        "fcguard.rules.host_rule": ("hosts",),
        "fcguard.rules.identities": ("account_matches", "tenant_matches"),
        "fcguard.rules.ownership": ("owned_by",),
        "fcguard.rules.parameters": ("ParameterRule", "refusal"),
        "fcguard.rules.permissions": ("requires_role",),
        "fcguard.rules.preconditions": ("requires",),
        "fcguard.rules.protocols": ("Rule", "RuleCall", "RuleTool", "Verdict"),
        "fcguard.rules.search_scopes": ("search_scope",),
        "fcguard.rules.table": ("RuleRow", "rules_markdown", "rules_table"),
        "fcguard.rules.task_policy": ("not_forbidden", "tool_allowed", "write_permitted"),
        "fcguard.rules.trial": ("ask_rule",),
        "fcguard.rules.vocabulary": ("CHINESE", "ENGLISH", "SearchVocabulary"),
    },
)
