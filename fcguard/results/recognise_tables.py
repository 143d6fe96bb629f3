"""Dataframes and arrays: the first rows as data, the whole as a CSV file."""

from __future__ import annotations

from typing import Any, Final

from fcguard.results.reading import Attachment, Recognised, read, records

__all__ = ["PREVIEW_ROWS", "array", "array_scalar", "arrow_table", "pandas_table", "polars_table", "series"]

PREVIEW_ROWS: Final = 50
"""Rows of a dataframe that are shown in `data`."""

MAX_ELEMENTS: Final = 100_000
"""Elements of an array that are looked at."""


def pandas_table(value: Any) -> Recognised:
    """Show a pandas dataframe or series; an index that is not a plain row number becomes columns."""
    frame = value.to_frame() if type(value).__name__ == "Series" else value
    has_own_index = type(frame.index).__name__ != "RangeIndex"
    head = frame.head(PREVIEW_ROWS)
    split = head.to_dict(orient="split")
    columns, rows = split["columns"], split["data"]
    if has_own_index:
        names = [name if name is not None else "index" for name in frame.index.names]
        columns = [*names, *columns]
        rows = [
            [*(key if isinstance(key, tuple) else (key,)), *row] for key, row in zip(split["index"], rows, strict=True)
        ]
    return _preview(columns, rows, len(frame), lambda: str(frame.to_csv(index=has_own_index)))


def polars_table(value: Any) -> Recognised:
    """Show a polars dataframe."""
    return _preview(value.columns, value.head(PREVIEW_ROWS).rows(), value.height, lambda: str(value.write_csv()))


def arrow_table(value: Any) -> Recognised:
    """Show an Arrow table; there is no whole, for writing one needs the library."""
    rows = value.slice(0, PREVIEW_ROWS).to_pylist()
    data = {"columns": list(value.column_names), "row_count": value.num_rows, "rows": rows}
    if value.num_rows <= PREVIEW_ROWS:
        return Recognised("dataframe", data)
    return Recognised("dataframe", {**data, "truncated": True}, notes=("truncated",))


def array(value: Any) -> Recognised:
    """Show an array as nested lists; a very long one is shown as its shape and its first elements."""
    if read(read(value, "dtype"), "kind") in ("M", "m"):
        value = value.astype(str)
    if value.size <= MAX_ELEMENTS:
        return Recognised("json", value.tolist())
    preview = value.reshape(-1)[:PREVIEW_ROWS].tolist()
    return Recognised("json", {"truncated": True, "shape": list(value.shape), "preview": preview}, notes=("truncated",))


def series(value: Any) -> Recognised:
    """Show a polars series as a list; a very long one is shown as its length and its first elements."""
    if len(value) <= MAX_ELEMENTS:
        return Recognised("json", value.to_list())
    preview = value.head(PREVIEW_ROWS).to_list()
    return Recognised("json", {"truncated": True, "shape": [len(value)], "preview": preview}, notes=("truncated",))


def array_scalar(value: Any) -> Recognised:
    """Show an array's element as the Python value it stands for."""
    return Recognised("json", str(value) if value.dtype.kind in ("M", "m") else value.item())


def _preview(columns: Any, rows: Any, count: int, write: Any) -> Recognised:
    data = {"columns": list(columns), "row_count": count, "rows": records(columns, rows)}
    if count <= PREVIEW_ROWS:
        return Recognised("dataframe", data)
    whole = Attachment(lambda: write().encode("utf-8", "backslashreplace"), "text/csv", ".csv")
    return Recognised("dataframe", {**data, "truncated": True}, notes=("truncated",), attachment=whole)
