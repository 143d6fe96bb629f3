"""The shell rule: what a prefix or a grep lets through, a parser must not; plain commands must pass."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcguard.errors import ConfigurationError
from fcguard.rules.command import shell
from tests.rules import shell_options, shell_tricks
from tests.rules.shell_plain import ALLOW, HARMLESS

TRICKS = [*shell_tricks.TRICKS, *shell_options.TRICKS]


@pytest.mark.parametrize("text", TRICKS)
def test_no_trick_gets_through(text: str, make_call: Any) -> None:
    violation = shell("command", allow=ALLOW)(make_call({"command": text}))
    assert violation is not None
    assert (violation.code, violation.next_action) == ("DANGEROUS_OPERATION", None)


@pytest.mark.parametrize("text", HARMLESS)
def test_no_plain_command_is_refused(text: str, make_call: Any) -> None:
    assert shell("command", allow=ALLOW)(make_call({"command": text})) is None


def test_the_tables_are_large_enough() -> None:
    assert len(set(TRICKS)) >= 40
    assert len(set(HARMLESS)) >= 40


def test_a_refusal_can_ask_for_approval(make_call: Any) -> None:
    violation = shell(allow=["ls"], on_refusal="approval")(make_call({"command": "rm x"}))
    assert (violation.code, violation.next_action) == ("APPROVAL_REQUIRED", "request_approval")
    assert "'ls'" in violation.message


@pytest.mark.parametrize("value", [5, True, ["ls"], {"a": 1}, 1.5])
def test_another_type_is_refused(value: Any, make_call: Any) -> None:
    assert shell(allow=["ls"])(make_call({"command": value})).code == "PARAM_INVALID"


def test_a_long_text_is_refused(make_call: Any) -> None:
    assert "longer" in shell(allow=["echo"])(make_call({"command": "echo " + "a" * 9000})).message


@pytest.mark.parametrize(
    "allow", [[], ["env"], ["bash"], ["python3.11"], ["/usr/bin/sudo"], ["ls; rm"], ["ls $(x)"], [""], ["ls >x"], [5]]
)
def test_an_entry_that_is_no_plain_command_is_refused_when_built(allow: Any) -> None:
    with pytest.raises(ConfigurationError, match="shell"):
        shell(allow=allow)


def test_what_a_refusal_does_is_one_of_two() -> None:
    with pytest.raises(ConfigurationError, match="on_refusal"):
        shell(allow=["ls"], on_refusal="ask")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("entry", "text", "passes"),
    [
        ("sort -o sorted.txt", "sort -o sorted.txt a", True),
        ("sort -o sorted.txt", "sort -o sorted.txt -o /etc/x a", False),
        ("sort", "sort -o sorted.txt a", False),
        ("git config", "git config --list", True),
        ("git", "git config --list", False),
        ("git", "git status", True),
        ("git submodule", "git submodule status", True),
        ("docker", "docker ps", True),
        ("docker", "docker exec x id", False),
        ("npm", "npm exec evil", False),
        ("npm", "npm test", True),
        ("go", "go run evil.go", False),
        ("kubectl", "kubectl delete pod x", False),
        ("curl --output *.json", "curl --output a.json https://a.test", True),
    ],
)
def test_what_an_entry_writes_out_is_meant(entry: str, text: str, passes: bool, make_call: Any) -> None:
    assert (shell(allow=[entry])(make_call({"command": text})) is None) is passes


def test_a_launcher_is_allowed_word_for_word(make_call: Any) -> None:
    rule = shell(allow=["sudo systemctl status nginx"])
    assert rule(make_call({"command": "sudo systemctl status nginx"})) is None
    assert rule(make_call({"command": "sudo systemctl status nginx x"})) is not None
    assert rule(make_call({"command": "sudo systemctl"})) is not None


_PIECES = st.sampled_from(
    [
        "echo",
        "ls",
        "a",
        "rm x",
        " ",
        ";",
        "&&",
        "|",
        "||",
        "&",
        "\n",
        "$",
        "`",
        "(",
        ")",
        "{",
        "}",
        "<",
        ">",
        "'",
        '"',
        "\\",
        "#",
        "~",
        "*",
        "!",
        "=",
        "$(",
    ]
)


@given(text=st.lists(_PIECES, min_size=1, max_size=8).map("".join))
def test_what_passes_runs_only_listed_commands_in_a_real_shell(text: str, make_call: Any) -> None:
    if shell(allow=["echo", "ls"])(make_call({"command": text})) is not None:
        return
    script = "ls() { :; }\n" + text  # a shell in which no other command can be found
    done = subprocess.run(
        ["/bin/bash", "--noprofile", "--norc", "-c", script],
        env={"PATH": "/nonexistent"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.stderr == ""


@pytest.mark.skipif(sys.platform == "win32", reason="needs bash")
def test_the_parser_is_missing() -> None:
    code = (
        "import sys; sys.modules['tree_sitter_bash'] = None\n"
        "from fcguard.rules.command import shell\n"
        "try:\n    shell(allow=['ls'])\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    assert "pip install 'fcguard[shell]'" in done.stdout
