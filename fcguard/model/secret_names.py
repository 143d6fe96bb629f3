"""Names of fields that hold secrets, and names that only resemble them."""

from __future__ import annotations

import re
from typing import Any, Final

__all__ = ["is_counted", "is_secret_name", "known_names"]

_ABOUT: Final = (
    r"(?!_?(?:policy|policies|length|min|max|strength|rules?|exp|expir\w*|ttl|lifetime|chang\w+|updated|created|reset_at|required|enabled"
    r"|type|types|format|file|files|filename|path|dir|count|counts|limit|length|size|endpoint|provider|version|algorithm|alg)(?:_|$))"
)
"""What follows a name and makes it one about the secret: its length, its age, its file."""

_OWNERS: Final = (
    "db|database|user|usr|username|login|admin|root|sa|sys|system|master|app|application|service|svc|client|account|acct|smtp|imap|pop|pop3"
    "|mail|email|ftp|sftp|ssh|http|https|proxy|ldap|bind|vpn|wifi|wlan|sql|mysql|mariadb|pg|pgsql|postgres|postgresql|oracle|ora|mssql"
    "|mongo|mongodb|redis|rabbit|rabbitmq|amqp|mqtt|kafka|elastic|es|neo4j|influx|cert|certificate|key|keystore|truststore|store|ssl|tls"
    "|p12|pfx|pem|gpg|zip|sudo|my|old|new|current|cur|confirm|repeat|auth|basic|http_auth|enc|encryption|registry|docker|git|nexus|jenkins"
)
_KEYS: Final = (
    "api|access|account|acct|admin|app|auth|client|consumer|crypto|deploy|encrypt|encryption|decrypt|decryption|function|hmac|integration"
    "|license|licence|master|private|priv|sas|secret|server|service|session|shared|shared_access|sign|signing|signature|ssh|ssl|storage"
    "|stream|subscription|symmetric|tls|vault|webhook|wrapping"
)

_SECRET: Final = re.compile(
    rf"(?:pass_?(?:word|wort|wd|wrd|phrase|code)s?|passw0rd|kennwort|contrase[nñ]a|mot_de_passe|wachtwoord|пароль){_ABOUT}"
    rf"|(?:^|_)(?:{_OWNERS})_?pass(?:$|_){_ABOUT}"
    r"|^pass$"
    rf"|secret(?!ar|ion|iv|ly|e$|e[ds]|_?(?:name|arn|ref|store|manager)(?:_|$)){_ABOUT}"
    rf"|(?:^|_)(?:{_KEYS})_?keys?(?![a-z]){_ABOUT}"
    rf"|(?:^|_)jwts?(?![a-z]|_?(?:iss|issuer|aud|audience|leeway|claims?|header|decode\w*|encode\w*)(?:_|$)){_ABOUT}"
    r"|(?:^|_)sas(?:$|_?(?:url|uri|signature|string))"
    r"|conn(?:ection)?_?str(?:ing)?s?(?![a-z])"
    r"|authorization(?!_?(?:url|uri|endpoint|server|servers|type|status|model|mode|rules?|required|enabled)(?:_|$))"
    r"|(?:^|_)auth(?:$|_(?!or|type|method|mode|url|uri|endpoint|server|domain|provider|scheme|status|required|enabled|level|time|at(?:_|$)"
    r"|failed|failures?|attempts?|count|errors?))"
    r"|credential(?!s?_?(?:type|types|provider|source|scope|name|id)(?:_|$))"
    r"|cookie(?!s?_?(?:consent|banner|policy|notice|domain|path|name|samesite|secure|httponly|max_age|enabled|preferences?)(?:_|$))"
    r"|(?:^|_)bearer(?:$|_)|(?:^|_)pins?(?:$|_)|(?:^|_)[ht]?otps?(?:$|_)|(?:^|_)cv[vc]2?(?:$|_)|(?:^|_)pwd(?:$|_)"
    r"|(?:^|_)(?:recovery|backup|security|verification|verify|sms|one_time|two_factor|2fa|mfa|activation)_?codes?(?:$|_)"
    r"|seed_?phrase|mnemonic_?phrase|密码(?!策略|长度|强度|规则|有效期|修改)|口令|密钥|秘钥|私钥|令牌|验证码|パスワード|비밀번호"
)
"""Searched in a name in snake case and lower case."""

_TOKEN: Final = re.compile(r"token(?P<plural>s?)(?!i[sz]|\w*i[sz](?:e|er|ation))")
_NO_TOKEN_BEFORE: Final = frozenset(
    {"page", "next", "prev", "previous", "continuation", "sync", "cursor", "pagination", "skip"}
)
_NO_TOKENS_BEFORE: Final = frozenset(
    [
        "max",
        "min",
        "num",
        "n",
        "total",
        "sum",
        "avg",
        "mean",
        "prompt",
        "completion",
        "input",
        "output",
        "in",
        "out",
        "cached",
        "cache",
        "reasoning",
        "thinking",
        "used",
        "remaining",
        "left",
        "audio",
        "text",
        "image",
        "video",
        "budget",
        "context",
        "window",
        "per",
        "of",
        "stop",
        "special",
        "new",
        "generated",
        "accepted",
        "rejected",
        "prediction",
        "billed",
        "free",
        "extra",
        "allowed",
        "required",
        "estimated",
        "count",
        "draft",
        "target",
        "source",
        "word",
        "sub",
        "unused",
        "available",
        "limit",
        "thousand",
        "million",
        "k",
        "m",
    ]
)
_NO_TOKEN_AFTER: Final = re.compile(
    r"_?(?:count|usage|used|limit|left|remaining|per|budget|type|ttl|exp\w*|lifetime|endpoint|uri|url|index|idx|position|pos|offset|length|len"
    r"|size|estimate|rate|rates|price|cost|window|bucket|class|kind|name|s|logprobs?|ids?|overlap|split\w*|stream|prob\w*|file|path|at|s_\w+)"
    r"(?:_|$)"
)

_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATORS: Final = re.compile(r"[-\s.:/]+")
_LONGEST: Final = 200
"""Characters of a name that are looked at, from its start and from its end."""
_MOST: Final = 10_000

known_names: Final[dict[str, bool]] = {}
"""What is known of names already; `is_secret_name` fills it."""


def is_secret_name(name: str) -> bool:
    """Answer whether a field of this name holds a secret (password, token, api_key, authorization, cookie, ...)."""
    found = known_names.get(name)
    if found is None:
        plain = _plain(name)
        found = _SECRET.search(plain) is not None or _names_token(plain)
        if len(known_names) < _MOST:
            known_names[name] = found
    return found


def is_counted(name: str, value: Any) -> bool:
    """Answer whether a value under a secret name is a mere number of such things: `tokens: 500`, `pass: 12`."""
    if isinstance(value, str):
        is_number = value.isdigit() and len(value) < 10
    else:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return is_number and _plain(name) in ("tokens", "pass")


def _plain(name: str) -> str:
    """Answer a name in snake case and lower case."""
    if len(name) > 2 * _LONGEST:
        name = f"{name[:_LONGEST]}_{name[-_LONGEST:]}"
    return _SEPARATORS.sub("_", _CAMEL.sub("_", name).lower()).strip("_")


def _names_token(plain: str) -> bool:
    for match in _TOKEN.finditer(plain):
        before = plain[: match.start()].rstrip("_").rpartition("_")[2]
        if _NO_TOKEN_AFTER.match(plain, match.end()):
            continue
        if before in (_NO_TOKENS_BEFORE if match["plural"] else _NO_TOKEN_BEFORE):
            continue
        return True
    return False
