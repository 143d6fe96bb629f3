"""Entry point of the `fcguard` command; says what is missing where the extra `cli` is not installed."""

from __future__ import annotations

import sys

from fcguard.cli.pipe import until_the_reader_leaves
from fcguard.errors import MissingExtraError

__all__ = ["app"]

_NEEDED = frozenset({"typer", "click"})


def app(arguments: list[str] | None = None) -> None:
    """Run the command line; ends the process with its exit code.

    Args:
        arguments: instead of those of the process.
    """
    try:
        from fcguard.cli.commands import make_app
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing not in _NEEDED:
            raise
        print(f"fcguard: {MissingExtraError(missing, 'cli')}", file=sys.stderr)
        raise SystemExit(2) from None
    with until_the_reader_leaves():
        make_app()(args=arguments, prog_name="fcguard")


if __name__ == "__main__":
    app()
