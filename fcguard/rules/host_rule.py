"""The rule that keeps URLs within the allowed hosts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar

from fcguard.rules.base import BaseRule
from fcguard.rules.host_policy import HostPolicy
from fcguard.rules.parameters import ParameterRule, refusal
from fcguard.rules.protocols import RuleCall, Verdict
from fcguard.rules.selectors import Selector, selectors

__all__ = ["hosts"]


def hosts(
    *parameters: str,
    allow: Iterable[str] | None = None,
    allow_subdomains: bool = False,
    allow_private: bool | Iterable[str] = False,
    schemes: Iterable[str] = ("https", "http"),
    ports: Iterable[int] | None = None,
) -> BaseRule:
    """Let URLs lead to allowed hosts only (`PARAM_INVALID`).

    A URL that clients read in different ways is refused: user-info, backslashes, control characters, percent-encoded or
    look-alike hosts, IPv4 in decimal, octal, hex or short form. The rule sees the URL, not the wire: use
    `fcguard.rules.transport.GuardedTransport` in the tool to check redirects and resolved addresses too.

    Args:
        parameters: dotted paths (`url`, `filter.url`, `urls[*]`); default: `url`.
        allow: hosts (`api.example.com`, with `:port` if only that one is meant), base URLs (then scheme and port must
            fit; the path is not compared), globs (`*.example.com`; `*` is any public host) and networks (`10.0.0.0/8`).
            None: the task's `environment.base_urls`, and nothing where that is empty. What is written out exactly is
            allowed even if it is private.
        allow_subdomains: whether `example.com` also allows `docs.example.com`.
        allow_private: whether `*` and globs include private names and addresses; or the networks that are meant.
            Metadata addresses of the clouds stay refused unless they are written out.
        schemes: allowed schemes, in lower case.
        ports: allowed ports; None: any that the matching entry does not exclude.

    Raises:
        ConfigurationError: an entry or option is none.
    """
    policy = HostPolicy(
        allow, allow_subdomains=allow_subdomains, allow_private=allow_private, schemes=schemes, ports=ports
    )
    return _Hosts(selectors(parameters or ("url",), "hosts"), policy)


@dataclass(frozen=True, slots=True, repr=False)
class _Hosts(ParameterRule):
    name: ClassVar[str] = "hosts"
    selectors: tuple[Selector, ...]
    policy: HostPolicy

    def examine(self, path: str, value: Any, call: RuleCall) -> Verdict:
        environment = call.context.environment
        reason = self.policy.why_not_url(value, environment.base_urls if environment is not None else ())
        return None if reason is None else refusal(self.name, path, reason)
