"""What is too large is cut so that it stays JSON, and the whole is kept where there is a place for it."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcguard.model.evidence import Evidence
from fcguard.results import shape


class Place:
    """Keeps artifacts in memory."""

    def __init__(self) -> None:
        self.kept = {}

    def __call__(self, data, media_type, suffix):
        ref = f"a{len(self.kept)}{suffix}"
        self.kept[ref] = (data, media_type)
        return Evidence("artifact", ref, None, media_type, len(data))


def no_room(data, media_type, suffix):
    raise OSError(28, "No space left on device")


def length(data):
    return len(json.dumps(data, ensure_ascii=False, separators=(",", ":")))


def test_a_long_list_keeps_its_first_items_and_the_whole_goes_to_an_artifact():
    value = [{"id": number, "name": "r" * 100} for number in range(20_000)]
    place = Place()
    shaped = shape(value, max_chars=20_000, keep=place)
    whole = json.dumps(value, separators=(",", ":"))
    assert shaped.data["truncated"] is True
    assert shaped.data["size"] == shaped.size == len(whole)
    assert shaped.data["items"] == 20_000
    preview = shaped.data["preview"]
    assert preview == value[: len(preview)]
    assert len(preview) > 100
    assert length(shaped.data) <= 20_000
    assert shaped.data["ref"] == "a0.json"
    assert place.kept == {"a0.json": (whole.encode(), "application/json")}
    assert shaped.notes == ("truncated",)
    assert [evidence.ref for evidence in shaped.evidence] == ["a0.json"]


def test_a_long_text_keeps_its_first_characters():
    value = 'é"\n' * 1000
    place = Place()
    shaped = shape(value, max_chars=500, keep=place)
    assert value.startswith(shaped.data["preview"])
    assert len(shaped.data["preview"]) > 200
    assert shaped.data["size"] == shaped.size == len(value)
    assert length(shaped.data) <= 500
    assert place.kept["a0.txt"] == (value.encode(), "text/plain")
    assert (shaped.kind, shaped.notes) == ("text", ("truncated",))


def test_a_text_whose_escapes_make_it_too_long_is_cut_too():
    shaped = shape("\x01" * 300, max_chars=500)
    assert shaped.data["size"] == 300
    assert length(shaped.data) <= 500


def test_a_long_object_keeps_every_field_it_can_and_cuts_the_long_ones():
    shaped = shape({"log": "x" * 5000, "status": "done", "lines": list(range(3000)), "ok": True}, max_chars=1000)
    preview = shaped.data["preview"]
    assert list(preview) == ["log", "status", "lines", "ok"]
    assert preview["status"] == "done"
    assert preview["ok"] is True
    assert preview["lines"] == list(range(len(preview["lines"])))
    assert length(shaped.data) <= 1000


def test_an_object_of_very_many_fields_keeps_the_first():
    value = {f"k{number}": number for number in range(10_000)}
    preview = shape(value, max_chars=1000).data["preview"]
    assert len(preview) > 10
    assert preview == {key: value[key] for key in preview}
    assert list(preview) == list(value)[: len(preview)]


def test_a_list_whose_first_item_is_too_long_shows_its_start():
    shaped = shape([["a" * 1000, "b"], "c"], max_chars=300)
    assert shaped.data["preview"][0][0].startswith("aaa")
    assert length(shaped.data) <= 300


@pytest.mark.parametrize(
    "value", [{"n": 10**400}, [1 << 2000], {"a": {"b": [10**500]}}], ids=lambda value: str(type(value))
)
def test_a_number_that_does_not_fit_is_left_out(value):
    shaped = shape(value, max_chars=200)
    assert length(shaped.data) <= 200
    assert "truncated" in shaped.notes


def test_without_a_place_the_whole_is_lost_and_said_to_be_cut():
    shaped = shape("x" * 1000, max_chars=200)
    assert "ref" not in shaped.data
    assert shaped.evidence == ()


def test_a_place_that_fails_never_turns_a_result_into_a_failure():
    shaped = shape("x" * 1000, max_chars=200, keep=no_room)
    assert "ref" not in shaped.data
    assert shaped.notes == ("artifact_failed", "truncated")


@pytest.mark.parametrize("max_chars", [-5, 0, 1, 40])
def test_a_tiny_limit_leaves_the_frame_alone(max_chars):
    assert shape([1, 2, 3] * 50, max_chars=max_chars).data == {
        "truncated": True,
        "size": 301,
        "items": 150,
        "preview": [],
    }


def test_small_bytes_stay_inline_and_large_ones_go_to_an_artifact():
    place = Place()
    assert shape(b"\x89PNG\r\n\x1a\n", keep=place).data["media_type"] == "image/png"
    assert place.kept == {}
    picture = b"\x89PNG\r\n\x1a\n" + bytes(5000)
    shaped = shape({"shot": picture}, keep=place)
    shown = shaped.data["shot"]
    assert (shown["size"], shown["media_type"], shown["ref"]) == (5008, "image/png", "a0.png")
    assert shown["digest"].startswith("sha256:")
    assert place.kept == {"a0.png": (picture, "image/png")}
    assert shaped.notes == ("bytes",)
    lost = shape(picture)
    assert "ref" not in lost.data
    assert (lost.kind, lost.size, lost.notes) == ("binary", 5008, ("bytes", "truncated"))
    failed = shape(picture, keep=no_room)
    assert failed.notes == ("artifact_failed", "bytes", "truncated")


@given(st.integers(1, 400), st.integers(0, 400))
def test_the_limit_is_exact_for_lists(count, max_chars):
    value = list(range(count))
    shaped = shape(value, max_chars=max_chars)
    is_whole = length(value) <= max_chars
    assert (shaped.data == value) == is_whole
    assert (shaped.size is None) == is_whole
