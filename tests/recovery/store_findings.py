"""Holds what a failure of a store is classified as against what was applied, and prints both."""

from __future__ import annotations

import pytest

from fcguard.recovery.classify import classify_exception

TABLE = []
NOW = 1_800_000_000.0


def printed_table():
    """Print the rows of one module once its tests are done."""
    yield
    width = [max(len(str(row[column])) for row in TABLE) for column in range(5)] if TABLE else []
    print()
    for row in TABLE:
        print("  ".join(str(cell).ljust(size) for cell, size in zip(row, width, strict=True)))
    TABLE.clear()


def check(name, fault, error, applied, expected):
    found = classify_exception(error, now=NOW)
    TABLE.append((name, fault, found.error_type, found.proof, applied))
    if found.proof in ("not_sent", "refused"):
        assert applied == 0, f"{name}: {fault}: {found} although it was applied"
    assert (found.error_type, found.proof) == expected, f"{name}: {fault}: {found} {error!r}"


def raised_by(tool):
    with pytest.raises(Exception) as caught:
        tool()
    return caught.value
