"""Commands that run other commands, and options with which a harmless command writes files or runs something."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

__all__ = ["HAZARDS", "hazardous", "is_launcher"]

_LAUNCHERS: Final = frozenset(
    {
        *(
            "sh",
            "bash",
            "zsh",
            "dash",
            "ash",
            "ksh",
            "fish",
            "csh",
            "tcsh",
            "busybox",
            "toybox",
            "pwsh",
            "powershell",
            "cmd",
        ),
        *(
            "env",
            "xargs",
            "parallel",
            "sudo",
            "doas",
            "su",
            "runuser",
            "pkexec",
            "chroot",
            "unshare",
            "nsenter",
            "setpriv",
            "capsh",
        ),
        *(
            "nohup",
            "setsid",
            "timeout",
            "nice",
            "ionice",
            "time",
            "stdbuf",
            "taskset",
            "chrt",
            "flock",
            "watch",
            "script",
            "screen",
        ),
        *(
            "tmux",
            "command",
            "builtin",
            "exec",
            "eval",
            "source",
            ".",
            "coproc",
            "trap",
            "ssh",
            "strace",
            "ltrace",
            "gdb",
            "ld.so",
        ),
        *(
            "perl",
            "ruby",
            "node",
            "nodejs",
            "deno",
            "bun",
            "php",
            "lua",
            "luajit",
            "tclsh",
            "wish",
            "expect",
            "osascript",
            "irb",
            "ghci",
        ),
        *(
            "awk",
            "gawk",
            "mawk",
            "nawk",
            "sed",
            "ed",
            "ex",
            "vi",
            "vim",
            "nvim",
            "view",
            "emacs",
            "nano",
            "less",
            "more",
            "m4",
            "bc",
            "dc",
        ),
        *("at", "batch", "crontab", "systemd-run", "npx", "uvx", "pipx", "ipython"),
    }
)
_PYTHON: Final = re.compile(r"(?:python|pypy)[\d.]*")

HAZARDS: Final[dict[str, tuple[str, ...]]] = {
    "find": ("-exec*", "-ok*", "-delete", "-fprint*", "-fls"),
    "fd": ("~x", "~X", "--exec", "--exec-batch"),
    "git": (
        *(
            "-c*",
            "-O*",
            "-x*",
            "--config",
            "--config-env",
            "--exec",
            "--exec-path",
            "--output",
            "--output-directory",
            "--ext-diff",
        ),
        *(
            "--textconv",
            "--upload-pack",
            "--receive-pack",
            "--open-files-in-pager",
            "--git-dir",
            "--work-tree",
            "--paginate",
            "--template",
        ),
        *("--file", "ext::*", "--edit-description", "--upload-archive"),
    ),
    "sort": ("~o", "~T", "--output", "--compress-program", "--temporary-directory"),
    "tar": (
        "~I",
        "~F",
        "--to-command",
        "--checkpoint-action",
        "--use-compress-program",
        "--rsh-command",
        "--info-script",
        "--new-volume-script",
    ),
    "curl": (
        "~o",
        "~O",
        "~K",
        "~T",
        "~F",
        "~x",
        "--output",
        "--output-dir",
        "--remote-name*",
        "--config",
        "--upload-file",
        "--form",
        "--proxy",
        "--engine",
    ),
    "wget": (
        "~O",
        "~P",
        "~i",
        "~e",
        "--output-document",
        "--directory-prefix",
        "--execute",
        "--use-askpass",
        "--post-file",
        "--config",
        "--input-file",
    ),
    "rsync": ("~e", "--rsh", "--rsync-path", "--remove-source-files", "--delete*"),
    "scp": ("~S", "~o", "~F"),
    "rg": ("--pre", "--pre-glob", "--hostname-bin", "--search-zip"),
    "sed": ("~i", "--in-place"),
    "tree": ("~o", "--output"),
    "date": ("~s", "--set"),
    "man": ("~P", "~H", "--pager", "--html"),
    "zip": ("~T", "--test", "--unzip-command"),
    "go": ("-exec*", "-toolexec*", "-overlay*", "--exec", "--toolexec", "--overlay"),
    "make": ("~f", "~C", "~I", "--file", "--makefile", "--eval", "--directory", "SHELL=*", "MAKEFLAGS=*"),
    "yq": ("~i", "--inplace"),
    "dd": ("of=*",),
    "docker": (
        "~v",
        "--volume",
        "--mount",
        "--privileged",
        "--pid",
        "--network",
        "--device",
        "--cap-add",
        "--config",
        "--host",
    ),
    "kubectl": ("--kubeconfig", "--server", "--token", "--as", "--as-group", "--overrides"),
    "pip": ("--index-url", "--extra-index-url", "--target", "--prefix", "--log", "--report"),
    "uniq": (),
    "file": ("~C", "~m", "--compile", "--magic-file"),
    "ps": (),
}
"""Options by command: `-x*` begins so, `~o` is that letter in a cluster of short options, `--long` also abbreviated."""


def is_launcher(words: tuple[str, ...]) -> bool:
    """Tell whether a command runs whatever its arguments say, so that an entry for it has to name every word."""
    name = words[0].rsplit("/", 1)[-1]
    return (name in _LAUNCHERS or _PYTHON.fullmatch(name) is not None) and "--sandbox" not in words


def hazardous(name: str, arguments: Iterable[str]) -> str | None:
    """Answer the first argument with which a command writes or runs something; None if there is none."""
    patterns = HAZARDS.get(name.rsplit("/", 1)[-1], ())
    return next((argument for argument in arguments for pattern in patterns if _fits(argument, pattern)), None)


def _fits(argument: str, pattern: str) -> bool:
    if pattern.startswith("~"):
        cluster = re.match(r"-([A-Za-z0-9]+)", argument)
        return cluster is not None and pattern[1] in cluster[1]
    if pattern.endswith("*"):
        return argument.startswith(pattern[:-1])
    option = argument.partition("=")[0]
    if pattern.startswith("--"):
        return len(option) > 2 and pattern.startswith(option)
    return option == pattern
