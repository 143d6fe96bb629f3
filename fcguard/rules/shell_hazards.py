"""Commands that run other commands, and options with which a harmless command writes files or runs something."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from fnmatch import fnmatchcase
from itertools import pairwise
from typing import Final

from fcguard.rules.globs import word_set

__all__ = ["HAZARDS", "hazardous", "is_launcher", "runs_others"]

_LAUNCHERS: Final = word_set(
    # shells, and what runs its arguments
    "sh bash zsh dash ash ksh fish csh tcsh busybox toybox pwsh powershell cmd env xargs parallel sudo doas su runuser pkexec chroot "
    "unshare nsenter setpriv capsh nohup setsid timeout nice ionice time stdbuf taskset chrt flock watch script screen tmux command "
    "builtin exec eval source . coproc trap ssh strace ltrace gdb ld.so at batch crontab systemd-run npx uvx pipx entr rlwrap unbuffer "
    # interpreters, and programs with a way out to a shell
    "perl ruby node nodejs deno bun php lua luajit tclsh wish expect osascript irb ghci ipython julia R Rscript octave gnuplot guile "
    "racket sbcl erl elixir iex groovy scala jshell java dotnet mono wine awk gawk mawk nawk sed ed ex vi vim nvim view emacs "
    "emacsclient nano less more m4 bc dc psql mysql mariadb sqlite3 mongosh sqlplus duckdb ftp sftp lftp telnet nc ncat socat"
)
_PYTHON: Final = re.compile(r"(?:python|pypy)[\d.]*")

_RUNNING: Final[dict[str, frozenset[str]]] = {
    name: word_set(words)
    for names, words in {
        "git": "config bisect submodule filter-branch difftool mergetool daemon hook send-email instaweb web--browse for-each-repo",
        "npm pnpm yarn": "exec x dlx explore node config set create init",
        "docker podman": "exec run create build buildx compose cp container plugin",
        "kubectl oc": "exec run cp attach debug proxy port-forward edit plugin apply create delete replace patch",
        "go": "run generate tool env install get",
        "cargo": "run install xtask",
        "poetry pipenv uv hatch rye pdm conda mamba": "run shell tool config",
        "bundle composer": "exec run-script config",
        "nix": "run shell develop",
        "gh": "alias extension codespace",
        "hash": "-p",
    }.items()
    for name in names.split()
}
"""First words by command with which it runs what the other words say; an entry has to name them."""

HAZARDS: Final[dict[str, tuple[str, ...]]] = {
    name: tuple(patterns.split())
    for names, patterns in {
        "find": "-exec* -ok* -delete -fprint* -fls",
        "fd, fdfind": "~x ~X --exec --exec-batch",
        "git": (
            "-c* -O* -x* --config --config-env --exec --exec-path --output --output-directory --ext-diff --textconv --upload-pack "
            "--receive-pack --open-files-in-pager --git-dir --work-tree --paginate --template --file ext::* --edit-description "
            "--upload-archive --separate-git-dir --extcmd"
        ),
        "git grep": "~O",
        "git clone": "~u",
        "git archive": "~o --remote",
        "git format-patch": "~o",
        "git difftool": "~x",
        "sort": "~o ~T --output --compress-program --temporary-directory",
        "uniq, xxd": "#2",
        "split": "--filter",
        "tar, bsdtar": (
            "~I ~F ~P --to-command --checkpoint-action --use-compress-program --rsh-command --rmt-command --info-script "
            "--new-volume-script --index-file --remove-files --absolute-names"
        ),
        "curl": (
            "~o ~O ~K ~T ~F ~x ~D ~c ~n ~Q --output --output-dir --remote-name* --config --upload-file --form --proxy --preproxy "
            "--socks* --engine --dump-header --cookie-jar --trace --trace-ascii --stderr --unix-socket --abstract-unix-socket "
            "--etag-save --hsts --alt-svc --netrc --netrc-file --netrc-optional --libcurl --variable --expand-* --quote "
            "@* -[A-Za-z]*@* --*=@* *%output{* =data-urlencode file:* gopher:* dict:* scp:* sftp:* smb:* smbs:* tftp:* ldap:*"
        ),
        "wget": (
            "~O ~P ~i ~e ~a ~o --output-document --directory-prefix --execute --use-askpass --post-file --body-file --config "
            "--input-file --output-file --append-output --save-cookies --warc-file --warc-tempdir --rejected-log"
        ),
        "rsync": (
            "~e ~T --rsh --rsync-path --remove-source-files --delete --delete-* --log-file --daemon --config --write-batch --partial-dir "
            "--backup-dir --temp-dir"
        ),
        "scp": "~S ~o ~F ~J ~D",
        "rg": "~z --pre --pre-glob --hostname-bin --search-zip",
        "ag, ack, bat, delta": "--pager --output",
        "sed": "~i --in-place",
        "tree": "~o --output",
        "date": "~s --set",
        "man": "~P ~H --pager --html",
        "file": "~C ~m --compile --magic-file",
        "zip": "~T --test --unzip-command",
        "yq": "~i --inplace",
        "dd": "of=*",
        "openssl": "-engine* -provider* -out* -keyout* -writerand* -pre* -post*",
        "go": (
            "-exec* -toolexec* -overlay* -vettool* -ldflags=*-extld* -o* -C* -outputdir* -*profile* -trace* --exec --toolexec --overlay "
            "--vettool -modfile*"
        ),
        "cargo": "~C ~Z --config --manifest-path --target-dir --artifact-dir",
        "mvn": "-[fst] -[fst][./=]* -gs --file --settings --global-settings --toolchains -Dexec.* -Dmaven.ext* -D*argLine*",
        "gcc, g++, cc, c++, clang, clang++": "-wrapper* -fplugin* -B* -specs* @* -Xclang*",
        "cmake": "-P* -E* -C* -DCMAKE_*COMPILER* -DCMAKE_*LAUNCHER* -DCMAKE_TOOLCHAIN_FILE* -DCMAKE_*INCLUDE*",
        "make, gmake": (
            "~f ~C ~I ~E --file --makefile --eval --directory --include-dir SHELL=* .SHELLFLAGS=* *MAKEFLAGS=* MAKEFILES=* MAKE=* "
            "CC=* CXX=* CPP=* LD=* AR=* AS=* RM=* PYTHON=* *FLAGS=* *$(* *${*"
        ),
        "docker, podman": (
            "~v --volume --mount --privileged --pid --network --net --ipc --uts --userns --device --cap-add --security-opt --cgroup* "
            "--env-file --label-file --entrypoint --volumes-from --runtime --cidfile --config ~H --host --context --sysctl"
        ),
        "kubectl, oc": (
            "~s --kubeconfig --server --context --cluster --user --token --as --as-group --overrides --cache-dir --profile-output "
            "--password --username --certificate-authority --client-certificate --client-key --insecure-skip-tls-verify"
        ),
        "pip, pip3": (
            "~i ~e ~t ~f --index-url --extra-index-url --editable --target --prefix --root --src --log --report --find-links "
            "--trusted-host --proxy --python --cache-dir --cert --global-option --config-settings"
        ),
        "pip install, pip3 install": "./* ../* /* *://* *.whl .",
        "npm, pnpm, yarn": "~C --prefix --script-shell --shell --node-options --userconfig --globalconfig --registry --cwd --dir",
        "npm install, npm i, npm add, pnpm install, pnpm add, yarn add": "*://* git+* file:* ./* ../* /*",
    }.items()
    for name in names.split(", ")
}
"""Options by command, or by command and its first word.

`-x*` begins so, `~o` is that letter in a cluster of short options, `--long` also abbreviated, `#2` is more than one operand,
`=name` a value of that option with `@`; everything else is a glob of the whole word.
"""

_WITH_VALUE: Final = {
    "curl": "AbCdeEHmPrtuUwXyYz",
    "wget": "AabDeIlnoOPQRtTUwX",
    "sort": "kSt",
    "uniq": "fsw",
    "xxd": "cglosn",
    "tar": "bfgHKLNTVX",
    "rg": "ABCEefgjmMrtT",
    "fd": "cdeEjSt",
    "docker": "acehlmpuw",
    "kubectl": "cfklLno",
    "scp": "cilPX",
    "zip": "bntx",
    "make": "jloW",
    "mvn": "DPTl",
    "pip": "cr",
}
"""Short options that take a value: the rest of their word is it."""


def is_launcher(words: tuple[str, ...]) -> bool:
    """Tell whether a command runs whatever its arguments say, so that an entry for it has to name every word."""
    name = _name(words)
    return (name in _LAUNCHERS or _PYTHON.fullmatch(name) is not None) and "--sandbox" not in words


def runs_others(words: tuple[str, ...], named: int) -> bool:
    """Tell whether the first word after a command makes it run others; one that the entry names does not count."""
    return named < 2 and len(words) > 1 and words[1] in _RUNNING.get(_name(words), frozenset())


def hazardous(words: tuple[str, ...], named: int) -> str | None:
    """Answer the first word with which a command writes or runs something; None if there is none.

    Args:
        words: the command.
        named: how many words the entry of the list names, which therefore are meant.
    """
    name = _name(words)
    patterns = HAZARDS.get(name, ()) + (HAZARDS.get(f"{name} {words[1]}", ()) if len(words) > 1 else ())
    arguments = list(words[1:])
    if name in ("npm", "pnpm", "yarn") and "--" in arguments:
        del arguments[arguments.index("--") :]  # the rest goes to the script that the entry names
    if name in ("tar", "bsdtar") and arguments and not arguments[0].startswith("-"):
        arguments[0] = f"-{arguments[0]}"  # its old way to write a cluster
    for at, argument in enumerate(arguments):
        if at + 1 >= named and any(_fits(name, argument, pattern) for pattern in patterns):
            return words[at + 1]
    return _by_position(name, arguments, patterns)


def _name(words: tuple[str, ...]) -> str:
    return words[0].rsplit("/", 1)[-1]


def _fits(name: str, argument: str, pattern: str) -> bool:
    if pattern.startswith("~"):
        return pattern[1] in _cluster(name, argument)
    if pattern.startswith("--") and "*" not in pattern:
        option = argument.partition("=")[0]
        return len(option) > 2 and pattern.startswith(option)
    if pattern.startswith(("#", "=")):
        return False
    return fnmatchcase(argument.lower() if "://" in argument else argument, pattern)


def _cluster(name: str, argument: str) -> str:
    """Answer the letters of a cluster of short options, up to the first that takes the rest of the word as its value."""
    match = re.match(r"-([A-Za-z0-9]+)", argument)
    if match is None:
        return ""
    values = _WITH_VALUE.get(name, "")
    end = next((at + 1 for at, letter in enumerate(match[1]) if letter in values), len(match[1]))
    return match[1][:end]


def _by_position(name: str, arguments: list[str], patterns: Iterable[str]) -> str | None:
    """Answer a word that is a hazard by where it stands: a second operand that is written to, a value read from a file."""
    for pattern in patterns:
        if pattern == "#2" and len(operands := list(_operands(name, arguments))) > 1:
            return operands[1]
        if pattern.startswith("="):
            for option, value in pairwise(arguments):
                if f"--{pattern[1:]}".startswith(option) and len(option) > 2 and "@" in value.partition("=")[0]:
                    return value
    return None


def _operands(name: str, arguments: list[str]) -> Iterator[str]:
    takes_value = False
    for argument in arguments:
        is_option = argument.startswith("-") and argument != "-"
        if not takes_value and not is_option:
            yield argument
        takes_value = is_option and argument[-1] in _WITH_VALUE.get(name, "") and len(argument) == 2
