"""Tables, arrays, images, programs, MCP results and pages."""

from __future__ import annotations

import base64
import csv
import io
import subprocess
import sys
import tempfile

import mcp_types
import numpy as np
import pandas as pd
import polars as pl
import pytest
from PIL import Image

from fcguard.model.evidence import Evidence
from fcguard.results import shape


def stable(value: object) -> str | None:
    """Name a case the same in every process: a text by itself, anything else by its number."""
    return value[:40] if isinstance(value, str) else None


BIG = 120
PNG = b"\x89PNG\r\n\x1a\n" + bytes(10)


class Place:
    def __init__(self):
        self.kept = {}

    def __call__(self, data, media_type, suffix):
        ref = f"a{len(self.kept)}{suffix}"
        self.kept[ref] = data
        return Evidence("artifact", ref)


# Tables ---------------------------------------------------------------------------------------------------------


def test_a_small_table_of_pandas():
    table = pd.DataFrame({"id": [1, 2], "when": pd.to_datetime(["2026-01-02", None]), "x": [0.5, float("nan")]})
    shaped = shape(table)
    assert (shaped.kind, shaped.notes) == ("dataframe", ("nan",))
    assert shaped.data == {
        "columns": ["id", "when", "x"],
        "row_count": 2,
        "rows": [{"id": 1, "when": "2026-01-02T00:00:00", "x": 0.5}, {"id": 2, "when": None, "x": None}],
    }


def test_an_index_with_a_meaning_becomes_columns():
    table = pd.DataFrame({"n": [1]}, index=pd.Index(["a"], name="key"))
    assert shape(table).data["rows"] == [{"key": "a", "n": 1}]
    assert shape(pd.DataFrame({"n": [1]}, index=["a"])).data["rows"] == [{"index": "a", "n": 1}]
    many = pd.DataFrame({"n": [1]}, index=pd.MultiIndex.from_tuples([("a", 2)], names=["x", "y"]))
    assert shape(many).data["rows"] == [{"x": "a", "y": 2, "n": 1}]
    assert shape(pd.Series([1], name="s")).data["rows"] == [{"s": 1}]


@pytest.mark.parametrize(
    "table", [pd.DataFrame({"n": range(BIG)}), pl.DataFrame({"n": range(BIG)})], ids=["pandas", "polars"]
)
def test_a_large_table_shows_its_start_and_the_whole_is_a_file(table):
    place = Place()
    shaped = shape(table, keep=place)
    assert shaped.data["row_count"] == BIG
    assert shaped.data["rows"] == [{"n": number} for number in range(50)]
    assert (shaped.data["truncated"], shaped.data["ref"], shaped.notes) == (True, "a0.csv", ("truncated",))
    rows = list(csv.DictReader(io.StringIO(place.kept["a0.csv"].decode())))
    assert [row["n"] for row in rows] == [str(number) for number in range(BIG)]
    assert "ref" not in shape(table).data


def test_a_table_that_cannot_be_written_is_still_shown():
    class Table(pl.DataFrame):
        def write_csv(self):
            raise RuntimeError

    shaped = shape(Table({"n": range(BIG)}), keep=Place())
    assert shaped.data["row_count"] == BIG
    assert shaped.notes == ("artifact_failed", "truncated")


class ArrowTable:
    __module__ = "pyarrow.lib"
    __qualname__ = "Table"
    column_names = ("n",)

    def __init__(self, count):
        self.num_rows = count

    def slice(self, start, count):
        return ArrowTable(min(count, self.num_rows))

    def to_pylist(self):
        return [{"n": number} for number in range(self.num_rows)]


ArrowTable.__name__ = "Table"


def test_a_table_of_arrow():
    assert shape(ArrowTable(2)).data == {"columns": ["n"], "row_count": 2, "rows": [{"n": 0}, {"n": 1}]}
    large = shape(ArrowTable(BIG))
    assert (len(large.data["rows"]), large.data["row_count"], large.notes) == (50, BIG, ("truncated",))


# Arrays ---------------------------------------------------------------------------------------------------------


def test_arrays():
    assert shape(np.arange(6).reshape(2, 3)).data == [[0, 1, 2], [3, 4, 5]]
    assert shape(np.array(["2026-01-02"], dtype="datetime64[D]")).data == ["2026-01-02"]
    assert shape(np.array(7)).data == 7
    assert shape(np.bool_(True)).data is True
    assert shape(np.timedelta64(5, "s")).data == "5 seconds"
    assert shape(pl.Series([1, None])).data == [1, None]
    assert shape(pd.NaT).data is None


@pytest.mark.parametrize("value", [np.zeros((500, 500)), pl.Series(range(250_000))], ids=["numpy", "polars"])
def test_a_very_long_array_shows_its_shape(value):
    shaped = shape(value)
    assert shaped.data["truncated"] is True
    assert shaped.data["shape"] in ([500, 500], [250_000])
    assert len(shaped.data["preview"]) == 50
    assert shaped.notes == ("truncated",)


def test_an_image_becomes_a_file():
    place = Place()
    noise = Image.effect_noise((100, 100), 50)
    shaped = shape(noise, keep=place)
    assert (shaped.kind, shaped.data["media_type"], shaped.data["ref"]) == ("binary", "image/png", "a0.png")
    assert Image.open(io.BytesIO(place.kept["a0.png"])).size == (100, 100)


# Programs -------------------------------------------------------------------------------------------------------


def program(code, **options):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False, **options)


def test_a_program_that_ended_well():
    shaped = shape(program("print('é')", encoding="utf-8", env={"PYTHONIOENCODING": "utf-8"}))
    assert shaped.kind == "process"
    assert shaped.data == {"exit_code": 0, "stdout": "é\n", "stderr": ""}
    assert shaped.failure is None


def test_a_program_that_failed():
    shaped = shape(program("import sys; print('out'); print('first\\nlast \\n', file=sys.stderr); sys.exit(3)"))
    assert shaped.data == {"exit_code": 3, "stdout": "out\n", "stderr": "first\nlast \n\n"}
    assert (shaped.failure.kind, shaped.failure.status, shaped.failure.message) == ("process", 3, "last")


def test_output_that_is_no_text():
    shaped = shape(program("import sys; sys.stdout.buffer.write(b'\\xff')"))
    assert shaped.data["stdout"] == {"$bytes": "/w==", "media_type": "application/octet-stream"}


def test_a_program_whose_output_is_not_at_hand_decides_nothing():
    process = subprocess.Popen([sys.executable, "-c", "raise SystemExit(2)"], stdout=subprocess.PIPE)
    assert shape(process).data == {"$object": "subprocess.Popen"}
    process.wait()
    shaped = shape(process)
    assert (shaped.data, shaped.notes, shaped.failure) == ({"exit_code": 2}, ("unread",), None)
    process.stdout.close()


# MCP ------------------------------------------------------------------------------------------------------------


def text(content):
    return mcp_types.TextContent(type="text", text=content)


def both_forms(**fields):
    """A result as the SDK's object and as it stands on the wire."""
    result = mcp_types.CallToolResult(**fields)
    wire = result.model_dump(mode="json", by_alias=True, exclude_none=True)
    return [result, wire]


@pytest.mark.parametrize("result", both_forms(content=[text("done")]), ids=["object", "wire"])
def test_a_single_text_is_the_result(result):
    shaped = shape(result)
    assert (shaped.kind, shaped.data, shaped.failure) == ("mcp", "done", None)


@pytest.mark.parametrize(
    "result", both_forms(content=[text("{}")], structured_content={"id": 1}), ids=["object", "wire"]
)
def test_structured_content_goes_before_text(result):
    assert shape(result).data == {"id": 1}


@pytest.mark.parametrize(
    "result", both_forms(content=[text("disk"), text("full")], is_error=True), ids=["object", "wire"]
)
def test_an_error_is_a_failure_with_its_words(result):
    shaped = shape(result)
    assert (shaped.failure.kind, shaped.failure.message) == ("mcp", "disk\nfull")
    assert shaped.data == [{"type": "text", "text": "disk"}, {"type": "text", "text": "full"}]


def picture():
    return mcp_types.ImageContent(type="image", data=base64.b64encode(PNG * 200).decode(), mime_type="image/png")


@pytest.mark.parametrize(
    "result", both_forms(content=[text("see"), picture()], structured_content={"a": 1}), ids=["object", "wire"]
)
def test_a_picture_becomes_a_file(result):
    place = Place()
    shaped = shape(result, keep=place)
    assert shaped.data["structured"] == {"a": 1}
    assert shaped.data["content"][0]["data"]["ref"] == "a0.png"
    assert place.kept == {"a0.png": PNG * 200}


@pytest.mark.parametrize(
    "result",
    both_forms(
        content=[
            mcp_types.EmbeddedResource(
                type="resource",
                resource=mcp_types.TextResourceContents(uri="file:///a", text="words", mime_type="text/plain"),
            ),
            mcp_types.EmbeddedResource(
                type="resource", resource=mcp_types.BlobResourceContents(uri="file:///b", blob="AA==", mime_type="x/y")
            ),
            mcp_types.ResourceLink(type="resource_link", uri="file:///c", name="c", mime_type="x/z"),
        ]
    ),
    ids=["object", "wire"],
)
def test_resources(result):
    assert shape(result).data == [
        {"type": "resource", "uri": "file:///a", "text": "words"},
        {"type": "resource", "uri": "file:///b", "data": {"$bytes": "AA==", "media_type": "x/y"}},
        {"type": "resource_link", "uri": "file:///c", "name": "c", "media_type": "x/z"},
    ]


def test_blocks_that_are_broken_are_shown_as_they_are():
    result = {"content": [{"type": "image", "data": "no base64!"}, {"type": "audio"}], "isError": False}
    assert shape(result).data == [{"type": "image", "data": "no base64!"}, {"type": "audio", "data": None}]


@pytest.mark.parametrize(
    "value",
    [
        {"isError": True},
        {"isError": True, "content": "x"},
        {"isError": "yes", "content": []},
        {"isError": True, "content": [], "more": 1},
        {"isError": True, "content": [{"type": "order"}]},
        {"isError": True, "content": [5]},
        {"inner": {"isError": True, "content": []}},
    ],
    ids=stable,
)
def test_data_that_only_resembles_a_result_is_data(value):
    shaped = shape(value)
    assert (shaped.data, shaped.failure, shaped.kind) == (value, None, "json")


class OtherBlock:
    type = "hologram"


class OtherResult:
    isError = False
    content = [OtherBlock()]


def test_a_block_of_an_unknown_kind_is_named():
    assert shape(OtherResult()).data == [{"type": "hologram"}]


class Listing:
    content = (1,)
    isError = False


def test_an_object_with_a_list_of_content_is_not_yet_a_result():
    assert shape(Listing()).kind == "object"


# Pages and files ------------------------------------------------------------------------------------------------


def test_a_page_is_named_and_not_asked():
    page = type(
        "Page", (), {"__module__": "playwright.sync_api._generated", "url": "https://u:p@shop.test/a?token=x#y"}
    )()
    shaped = shape(page)
    assert (shaped.kind, shaped.data) == ("page", {"url": "https://shop.test/a"})


def test_a_temporary_file_is_named_and_not_read():
    with tempfile.NamedTemporaryFile() as file:
        assert shape(file).data == {"$file": file.name}
    with tempfile.TemporaryFile() as file:
        assert shape(file).data == {"$file": None}
