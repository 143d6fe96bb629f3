"""Evidence files: where they lie, that names cannot leave, and that what is kept stays what it was."""

from __future__ import annotations

import hashlib
import os
import resource
import stat
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcguard.errors import UsageError
from fcguard.model.evidence import Evidence
from fcguard.results import ArtifactDirectory, shape
from fcguard.results.media import evidence_type, media_type_of, media_type_of_name, suffix_of

HOSTILE = [
    "",
    ".",
    "..",
    "../x",
    "/etc/passwd",
    "a/b",
    "a\\b",
    "C:x",
    "~root",
    ".hidden",
    "a\x00b",
    "x ",
    "x.",
    "a\nb",
    "NUL",
    "con.txt",
]
HOSTILE += ["x" * 121, "\ud800", "a?b", "a*b", "|x", " "]


@pytest.fixture
def directory(tmp_path):
    return ArtifactDirectory(tmp_path / "evidence")


def keep(directory, data=b"data", **options):
    return directory.keep(data, "text/plain", ".txt", **{"tool": "create_order", "request_id": "fc-1", **options})


def test_what_is_kept_can_be_read_and_proved(directory):
    evidence = keep(directory, b"hello")
    digest = hashlib.sha256(b"hello").hexdigest()
    assert evidence == Evidence(
        "text", f"artifacts/create_order/fc-1/{digest[:16]}.txt", f"sha256:{digest}", "text/plain", 5
    )
    assert directory.read(evidence) == b"hello"
    assert directory.is_unchanged(evidence)
    path = directory.root / evidence.ref
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.write_bytes(b"hullo")
    assert not directory.is_unchanged(evidence)
    path.unlink()
    assert not directory.is_unchanged(evidence)


def test_the_directory_stays_where_it_was_when_the_process_moves(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    directory = ArtifactDirectory("evidence")
    evidence = keep(directory)
    monkeypatch.chdir("/")
    assert directory.is_unchanged(evidence)
    assert directory.root == tmp_path / "evidence"


def test_nothing_is_made_before_something_is_kept(directory):
    assert directory.path_for("t", "r", "n.txt") == directory.root / "artifacts" / "t" / "r" / "n.txt"
    assert directory.log_path("t", "r") == directory.root / "logs" / "t" / "r.log"
    assert not directory.root.exists()
    assert repr(directory) == f"ArtifactDirectory({str(directory.root)!r})"


def test_equal_content_is_kept_once_and_other_content_never_overwrites(directory):
    assert keep(directory, b"1") == keep(directory, b"1")
    first = keep(directory, b"one", name="page.html")
    second = keep(directory, b"two", name="page.html")
    assert first.ref.endswith("/page.html")
    assert second.ref != first.ref
    assert second.ref.endswith(".html")
    assert keep(directory, b"two", name="page.html") == second
    assert (directory.read(first), directory.read(second)) == (b"one", b"two")
    assert keep(directory, b"one", name="page.html", type="body").type == "body"


@pytest.mark.parametrize("name", HOSTILE, ids=ascii)
def test_a_name_that_is_not_plain_is_refused(directory, name):
    with pytest.raises(UsageError, match="plain file name"):
        directory.path_for("t", "r", name)
    if name:
        with pytest.raises(UsageError, match="plain file name"):
            keep(directory, name=name)
    assert not directory.root.exists()


@pytest.mark.parametrize("name", ["a.txt", "log 1.txt", "截图.png", "a-b_c.tar.gz", "x" * 120])
def test_a_plain_name_stays_as_it_is(directory, name):
    evidence = keep(directory, name=name)
    assert evidence.ref.endswith(f"/{name}")
    assert directory.read(evidence) == b"data"


@pytest.mark.parametrize("text", HOSTILE, ids=ascii)
def test_tool_names_and_request_ids_cannot_leave_the_directory(directory, text):
    for options in ({"tool": text}, {"request_id": text}):
        evidence = keep(directory, **options)
        assert (directory.root / evidence.ref).resolve().is_relative_to(directory.root.resolve())
        assert evidence.ref.count("/") == 3
        assert directory.is_unchanged(evidence)


texts = st.text("aA.%/\\:-_ é漢\ud800\x00~con", max_size=12) | st.text("ab.", min_size=110, max_size=200)


@given(texts, texts)
def test_different_names_have_different_paths(first, second):
    directory = ArtifactDirectory("evidence")
    assert (directory.log_path(first, "r") == directory.log_path(second, "r")) == (first == second)
    parts = directory.log_path(first, second).relative_to(directory.root).parts
    assert parts[0] == "logs"
    assert len(parts) == 3
    assert all(not part.startswith(".") and len(os.fsencode(part)) <= 124 for part in parts)


@pytest.mark.parametrize("suffix", [".tar/../x", "txt", ".", ".x" * 20, "./x", ".é"])
def test_a_strange_ending_is_left_out(directory, suffix):
    evidence = directory.keep(b"x", "text/plain", suffix, tool="t", request_id="r")
    assert "." not in evidence.ref.rpartition("/")[2]


def test_a_link_out_of_the_directory_is_not_followed(directory, tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    (directory.root / "artifacts").mkdir(parents=True)
    (directory.root / "artifacts" / "evil").symlink_to(outside)
    with pytest.raises(UsageError, match="below the evidence directory"):
        keep(directory, tool="evil")
    assert list(outside.rglob("*.txt")) == []
    target = outside / "target"
    target.write_text("safe")
    link = directory.path_for("create_order", "fc-1", "link.txt")
    link.parent.mkdir(parents=True)
    link.symlink_to(target)
    with pytest.raises(UsageError, match="below the evidence directory"):
        keep(directory, name="link.txt")
    with pytest.raises(UsageError, match="below the evidence directory"):
        directory.reference(link)
    assert target.read_text() == "safe"


@pytest.mark.parametrize("ref", ["../outside.txt", "/etc/passwd", "", ".", "artifacts/../../x"])
def test_a_reference_that_leads_out_is_refused(directory, ref):
    for ask in (directory.read, directory.is_unchanged):
        with pytest.raises(UsageError, match="below the evidence directory"):
            ask(Evidence("log", ref))


def test_a_file_that_a_tool_wrote_into_the_directory_can_be_named(directory):
    path = directory.path_for("browse", "fc-2", "shot.png")
    path.parent.mkdir(parents=True)
    path.write_bytes(b"\x89PNG")
    evidence = directory.reference(path)
    assert evidence == directory.reference("artifacts/browse/fc-2/shot.png")
    assert (evidence.type, evidence.media_type, evidence.size) == ("image", "image/png", 4)
    assert directory.is_unchanged(evidence)
    assert directory.reference(path, type="screenshot").type == "screenshot"
    assert directory.is_unchanged(Evidence("log", evidence.ref))
    with pytest.raises(OSError, match="No such file"):
        directory.reference("artifacts/none.png")


def test_a_failed_write_leaves_nothing_behind(directory):
    taken = directory.path_for("create_order", "fc-1", "page.html")
    taken.mkdir(parents=True)
    with pytest.raises(OSError, match="directory"):
        keep(directory, name="page.html")
    assert list(taken.parent.iterdir()) == [taken]


def test_a_write_that_breaks_off_leaves_nothing_behind(directory):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            keep(directory, bytes(50_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [path for path in directory.root.rglob("*") if path.is_file()] == []


def test_many_threads_keep_the_same_content(directory):
    barrier = threading.Barrier(4)
    found = []

    def work():
        barrier.wait()
        found.append(keep(directory, b"x" * 100_000))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert directory.is_unchanged(found[0])
    assert len(list((directory.root / found[0].ref).parent.iterdir())) == 1


def test_a_large_file_is_read_in_parts(directory):
    evidence = keep(directory, bytes(3_000_000))
    assert evidence.size == 3_000_000
    assert directory.is_unchanged(evidence)


def test_shape_keeps_through_the_directory(directory):
    shaped = shape({"rows": ["x" * 100] * 100}, max_chars=500, keep=directory.keeper("list_orders", "fc-3"))
    evidence = shaped.evidence[0]
    assert shaped.data["ref"] == evidence.ref
    assert evidence.ref.startswith("artifacts/list_orders/fc-3/")
    assert (evidence.type, evidence.media_type) == ("result", "application/json")
    assert b'"rows"' in directory.read(evidence)


@pytest.mark.parametrize(
    ("data", "media_type", "word", "suffix"),
    [
        (b"\x89PNG\r\n\x1a\n", "image/png", "image", ".png"),
        (b"\xff\xd8\xff\xe0", "image/jpeg", "image", ".jpg"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8", "image/webp", "image", ".webp"),
        (b"RIFF\x00\x00\x00\x00AVI LIST", "application/octet-stream", "artifact", ".bin"),
        (b"%PDF-1.7", "application/pdf", "artifact", ".pdf"),
        (b"\x00\x00\x00\x18ftypmp42", "video/mp4", "artifact", ".mp4"),
        (b"PK\x03\x04", "application/zip", "artifact", ".zip"),
        (b"", "application/octet-stream", "artifact", ".bin"),
    ],
)
def test_what_the_first_bytes_show(data, media_type, word, suffix):
    assert media_type_of(data) == media_type
    assert evidence_type(media_type) == word
    assert suffix_of(media_type) == suffix


def test_what_a_name_shows():
    assert media_type_of_name("a/b.PNG") == "image/png"
    assert media_type_of_name("a/b.unknown") == "application/octet-stream"
    assert media_type_of_name("noend") == "application/octet-stream"
    assert suffix_of("text/plain; charset=utf-8") == ".txt"
    assert evidence_type("text/csv") == "table"
    assert evidence_type("application/json") == "result"
    assert evidence_type("text/html") == "text"


def test_json_form_of_a_reference():
    assert Evidence("log", "logs/t/r.log").model_dump() == {"type": "log", "ref": "logs/t/r.log"}
    assert Evidence("image", "a.png", "sha256:0", "image/png", 0).model_dump() == {
        "type": "image",
        "ref": "a.png",
        "digest": "sha256:0",
        "media_type": "image/png",
        "size": 0,
    }
