"""Which texts are the URLs of databases, what such a URL names, and how a message may show it."""

from __future__ import annotations

from typing import Final, Literal

from fcguard.errors import ConfigurationError

__all__ = ["Kind", "is_url", "split_url", "without_password"]

Kind = Literal["sqlite", "postgresql"]

_SQLITE: Final = "sqlite:///"
_POSTGRES: Final = ("postgresql://", "postgres://")
_KINDS: Final = ("sqlite:", "postgresql:", "postgres:")


def is_url(text: str) -> bool:
    """Answer whether a text is meant as a URL; in a `pathlib.Path`, one has only one slash after its colon."""
    return "://" in text or text.startswith(_KINDS)


def split_url(url: str, said: str) -> tuple[Kind, str]:
    """Answer the kind of database that a URL names, and where it is: the path of a SQLite file, or the URL itself.

    Args:
        url: `sqlite:///relative/path`, `sqlite:////absolute/path` or `postgresql://user@host/database`.
        said: where the URL was given, for messages; these never hold the URL itself, which may hold a password.

    Raises:
        ConfigurationError: the URL is of no known kind.
    """
    if url.startswith(_SQLITE) and len(url) > len(_SQLITE):
        return "sqlite", url[len(_SQLITE) :]
    if url.startswith(_POSTGRES):
        return "postgresql", url
    kind = url.partition(":")[0] if ":" in url else url
    raise ConfigurationError(
        f"{said} begins with {kind!r}; write sqlite:///path, sqlite:////absolute/path or postgresql://user@host/db"
    )


def without_password(url: str) -> str:
    """Answer the URL as messages may show it: without user, password and parameters, which may hold a password too."""
    # As libpq reads it: a reader of URLs would end the host at a `?` or `#` of the password, and show what is before.
    scheme, _, rest = url.partition("://")
    authority, slash, path = rest.partition("/")
    shown = f"{authority.rpartition('@')[2]}{slash}{path}"
    return f"{scheme}://{shown.partition('?')[0]}"
