"""The paths rule, on a real directory tree with real symlinks."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcguard.errors import ConfigurationError
from fcguard.rules.filesystem import paths
from tests.rules.path_texts import HARMLESS, TRICKS


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    base = tmp_path_factory.mktemp("srv")
    root = base / "data"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a.txt").write_text("a")
    (root / "a" / "b" / "c.txt").write_text("c")
    secret = base / "data_secret"
    secret.mkdir()
    (secret / "x.txt").write_text("secret")
    (root / "link_out").symlink_to(secret)
    (root / "link_file").symlink_to(secret / "x.txt")
    (root / "a" / "link_up").symlink_to("../..")
    (root / "link_in").symlink_to("a")
    (root / "link_in_file").symlink_to("a/b/c.txt")
    (root / "link_chain").symlink_to("link_out")
    (root / "loop").symlink_to("loop")
    (root / "l1").symlink_to("l2")
    (root / "l2").symlink_to("l1")
    (root / "dangling").symlink_to(base / "nothing" / "y")
    (root / "dangle_in").symlink_to("later")
    (root / "proc").symlink_to("/proc/self/root")
    return root


@pytest.mark.parametrize("path", TRICKS, ids=lambda value: ascii(value)[:40])
def test_no_trick_gets_through(path: str, root: Path, make_call: Any) -> None:
    violation = paths("path", root=root)(make_call({"path": path.replace("{root}", str(root))}))
    assert violation is not None
    assert (violation.code, violation.next_action) == ("PARAM_INVALID", "fix_arguments")


@pytest.mark.parametrize("path", HARMLESS, ids=lambda value: ascii(value)[:40])
def test_no_plain_path_is_refused(path: str, root: Path, make_call: Any) -> None:
    assert paths("path", root=root)(make_call({"path": path.replace("{root}", str(root))})) is None


def test_the_tables_are_large_enough() -> None:
    assert len(set(TRICKS)) >= 40
    assert len(set(HARMLESS)) >= 40


def test_a_root_that_does_not_exist_still_bounds(make_call: Any) -> None:
    rule = paths(root="/srv/none/data")
    assert rule(make_call({"path": "a/x.txt"})) is None
    assert rule(make_call({"path": "../data_secret/x.txt"})) is not None


def test_a_root_may_be_a_symlink_and_there_may_be_several(root: Path, tmp_path: Path, make_call: Any) -> None:
    (tmp_path / "alias").symlink_to(root)
    other = tmp_path / "other"
    other.mkdir()
    rule = paths(root=[tmp_path / "alias", str(other)])
    assert rule(make_call({"path": "a.txt"})) is None
    assert rule(make_call({"path": str(root / "a.txt")})) is None
    assert rule(make_call({"path": str(other / "x")})) is None
    assert rule(make_call({"path": str(tmp_path / "x")})) is not None


def test_a_path_may_have_to_exist_and_to_end_well(root: Path, make_call: Any) -> None:
    rule = paths(root=root, must_exist=True, suffixes=[".txt", ".CSV"])
    assert rule(make_call({"path": "a.txt"})) is None
    assert "exists" in rule(make_call({"path": "b.txt"})).message
    assert ".txt, .csv" in rule(make_call({"path": "a"})).message
    assert paths(root=root, suffixes=[".csv"])(make_call({"path": "A.CSV"})) is None


@pytest.mark.parametrize("value", [5, True, ["a"], {"a": 1}, 1.5])
def test_another_type_is_refused(value: Any, root: Path, make_call: Any) -> None:
    assert paths(root=root)(make_call({"path": value})).code == "PARAM_INVALID"


@pytest.mark.parametrize(
    "options", [{"root": "/"}, {"root": []}, {"root": ""}, {"root": "/tmp/.."}, {"root": "/srv/x", "suffixes": ["txt"]}]
)
def test_options_are_checked_when_the_rule_is_built(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        paths(**options)


@given(
    parts=st.lists(
        st.sampled_from(
            [
                "..",
                ".",
                "a",
                "b",
                "/",
                "//",
                "link_out",
                "link_in",
                "link_up",
                "x.txt",
                "%2e",
                "%2f",
                "\\",
                "~",
                "data_secret",
                "\uff0e",
                "\u2215",
            ]
        ),
        max_size=9,
    ),
    glue=st.sampled_from(["/", "", "//"]),
)
def test_what_passes_opens_inside(parts: list[str], glue: str, root: Path, make_call: Any) -> None:
    text = glue.join(parts)
    if paths(root=root)(make_call({"path": text})) is None:
        assert (root / text).resolve().is_relative_to(root.resolve())


@given(text=st.text(max_size=30))
def test_any_text_is_judged_without_a_crash(text: str, root: Path, make_call: Any) -> None:
    verdict = paths(root=root)(make_call({"path": text}))
    assert verdict is None or verdict.code == "PARAM_INVALID"
