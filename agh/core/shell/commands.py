"""What a command line runs, as far as one can see without running it. Pure.

Promises: a rule that denies sees every command in the line, also behind another spelling of its name, behind
`env`, `sudo`, `sh -c` and the like, or in a substitution; what may be anything is a text with ANY in it. A
rule that allows sees only commands that are known word for word.
"""

from __future__ import annotations

import re
from itertools import pairwise
from shlex import quote

from agh.core.named_tuple import NamedTuple
from agh.core.shell.patterns import ANY
from agh.core.shell.words import Line, Simple, Word, split

MAX_FOLDERS = 8
MAX_UNITS, MAX_STARTS, MAX_DEPTH = 2_000, 32, 8
_SHELLS = {"sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "fish", "rbash", "csh", "tcsh"}
_WRAPPERS = {
    *(
        "env",
        "sudo",
        "doas",
        "su",
        "runuser",
        "nice",
        "ionice",
        "chrt",
        "taskset",
        "timeout",
        "nohup",
        "setsid",
    ),
    *(
        "stdbuf",
        "unbuffer",
        "xargs",
        "parallel",
        "exec",
        "command",
        "builtin",
        "time",
        "watch",
        "strace",
        "ltrace",
    ),
    *("chroot", "unshare", "nsenter", "flock", "script", "ssh", "busybox", "toybox", "caffeinate", "noglob"),
    *("nocorrect", "coproc", "catchsegv", "setarch", "linux64", "linux32", "systemd-run", "entr", "rlwrap"),
    *(
        "podman",
        "docker",
        "uv",
        "poetry",
        "fakeroot",
        "firejail",
        "bwrap",
        "prlimit",
        "setpriv",
        "capsh",
        "nix",
    ),
    *("dbus-run-session", "xvfb-run", "direnv", "mise", "start-stop-daemon"),
}
_KEYWORDS = {"!", "{", "}", "if", "then", "else", "elif", "fi", "do", "done", "while", "until", "for", "case",
             "esac", "in", "function", "select", "[[", "]]"}  # fmt: skip
_CHANGE_FOLDER = {"cd", "pushd", "chdir", "-C", "--chdir", "--directory"}
_EXEC_FLAGS = {"-exec", "-execdir", "-ok", "-okdir"}
_CODE_FLAGS = {"python": "c", "perl": "eE", "ruby": "e", "node": "ep", "nodejs": "ep", "php": "r", "lua": "e"}
_GIT_WITH_VALUE = {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path", "--config-env"}
_SYSTEM_FOLDERS = ("/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/")
_UNKNOWN = ANY


class Unit(NamedTuple):
    """One command of a line.

    `known` is its text if a rule may allow it by that; else None. `seen` are the texts by which a rule may
    deny it. `inner` are the commands that it runs itself, if they are all known: then those may be allowed
    instead. An `extra` unit is only there to be denied.
    """

    known: str | None
    seen: tuple[str, ...]
    inner: tuple[Unit, ...] = ()
    extra: bool = False


class Analysis(NamedTuple):
    """The commands of a line, the words of which some may be paths, and the directories it changes to."""

    units: tuple[Unit, ...]
    words: tuple[str, ...]
    folders: tuple[str, ...] = ()


def analyse(command: str) -> Analysis:
    """Return what a command line runs."""
    units = _units_of(split(command), 0) or [Unit("", ())]
    texts = tuple(dict.fromkeys((command, " ".join(command.split()))))
    whole = Unit(units[0].known if len(units) == 1 else None, texts, extra=True)
    words = _words_of(split(command), 0)
    folders = [word for before, word in pairwise(words) if before in _CHANGE_FOLDER]
    unique = tuple(dict.fromkeys(filter(None, words)))
    return Analysis((whole, *units[:MAX_UNITS]), unique[:MAX_UNITS], tuple(folders[:MAX_FOLDERS]))


def canonical(command: str) -> str:
    """Return a text that two command lines share only if they run the same, whatever shell starts them."""
    line = split(command)
    units = _units_of(line, 0)
    if line.plain and units and len(line.commands) == 1 and units[0].known is not None:
        words = [word.text for word in line.commands[0].words]
        if _is_script(words):
            return canonical(words[-1])
        return units[0].known
    return command.strip()


def _units_of(line: Line, depth: int) -> list[Unit]:
    units = [unit for command in line.commands for unit in _read(command, line.plain, depth)]
    if line.opaque or len(units) > MAX_UNITS or not line.plain:
        units.append(Unit(None, (_UNKNOWN,) if line.opaque or len(units) > MAX_UNITS else ()))
    return units


def _read(command: Simple, plain: bool, depth: int) -> list[Unit]:
    """Return the unit of a simple command, and extra ones for what it runs in turn."""
    first = command.assignments()
    words = command.words
    while first < len(words) and words[first].text in _KEYWORDS:
        first += 1
        plain = False
    starts = _starts(words, first)
    seen, extra = [], []
    for start in starts:
        texts, units = _look_at(words[start:], command, depth)
        if start == first:
            seen += texts
            extra += units
        else:
            known = _known(words[start:]) if plain else None
            extra += [Unit(known, tuple(texts), extra=True), *units]
    if len(starts) > MAX_STARTS:
        extra.append(Unit(None, (_UNKNOWN,), extra=True))
    seen.append(_join(words))
    known = _known(words) if plain and _is_known(command, first) else None
    inner = _transparent(words[first:], depth) if known is not None and not first else ()
    return [Unit(known, tuple(dict.fromkeys(seen)), inner), *extra]


def _starts(words: list[Word], first: int) -> list[int]:
    """Return where in the words a command may begin: behind a wrapper, anywhere."""
    starts = [first] if first < len(words) else []
    name = _name(words[first].expanded) if starts else ""
    if name in _WRAPPERS or name == ANY:
        return [*starts, *range(first + 1, min(len(words), first + 1 + MAX_STARTS))]
    for index in range(first, len(words)):
        if name == "find" and words[index].text in _EXEC_FLAGS:
            starts.append(index + 1)
    return starts[: MAX_STARTS + 1]


def _look_at(words: list[Word], command: Simple, depth: int) -> tuple[list[str], list[Unit]]:
    """Return the texts of a command that begins with these words, and what it runs in turn."""
    if not words:
        return [], []
    name, rest = _name(words[0].expanded), words[1:]
    texts = [_join(words), " ".join([name, *(word.pattern for word in rest)])]
    if any(word.has_glob for word in words):
        texts.append(" ".join([name, *(word.expanded for word in rest)]))
    if name == "git":
        texts.append(" ".join(["git", *(word.pattern for word in _without_options(rest))]))
    scripts = _scripts(name, rest, command)
    units: list[Unit] = []
    for script in scripts:
        if script is None or ANY in script or depth >= MAX_DEPTH:
            units.append(Unit(None, (_UNKNOWN,), extra=True))
        else:
            nested = _units_of(split(script), depth + 1)
            units += [unit._replace(extra=True, inner=()) for unit in nested]
            units += [
                inner._replace(extra=True) for unit in nested for inner in unit.inner if not inner.extra
            ]
    return texts, units


def _scripts(name: str, arguments: list[Word], command: Simple) -> list[str | None]:
    """Return the arguments that a program takes for a shell line; None for code that is not known."""
    patterns = [word.pattern for word in arguments]
    if name in _SHELLS:
        options = [text for text in patterns if text.startswith(("-", "+"))]
        others = [text for text in patterns if not text.startswith(("-", "+"))]
        if any("c" in text for text in options if not text.startswith("--")) or any(
            ANY in text for text in patterns
        ):
            return [*others, *([None] if not others else [])]
        return [None] if not others or command.targets else []
    if name in ("eval", "trap"):
        return [" ".join(patterns), *patterns]
    if name in _WRAPPERS:
        return [text for text in patterns if " " in text or "\t" in text or "\n" in text or ";" in text]
    flags = _CODE_FLAGS.get(re.sub(r"[\d.]+$", "", name))
    if flags and any(re.fullmatch(rf"-\w*[{flags}].*|--(eval|print|run).*", text) for text in patterns):
        return [None]
    if name.endswith("awk") and any(re.search(r"system|\||getline", text) for text in patterns):
        return [None]
    return []


def _transparent(words: list[Word], depth: int) -> tuple[Unit, ...]:
    """Return the commands that a plain wrapper runs, and nothing else: `sh -c`, `nice`, `timeout 5`."""
    texts = [word.text for word in words]
    name = _system_name(texts[0]) if texts else ""
    if depth >= MAX_DEPTH:
        return ()
    if _is_script(texts):
        return tuple(_units_of(split(texts[-1]), depth + 1))
    skipped = {"nohup": 1, "nice": 1, "command": 1, "time": 1, "timeout": 2}.get(name, 0)
    if not skipped or len(texts) <= skipped or any(text.startswith("-") for text in texts[1 : skipped + 1]):
        return ()
    return tuple(_read(Simple(words[skipped:]), True, depth + 1))


def _is_script(texts: list[str]) -> bool:
    """Tell whether these words start a shell for a line, and say nothing else."""
    is_shell = len(texts) in (3, 4) and _system_name(texts[0]) in _SHELLS
    return is_shell and texts[1:-1] in (["-c"], ["-lc"], ["-l", "-c"], ["-ec"], ["-e", "-c"])


def _known(words: list[Word]) -> str | None:
    """Return the text of words that are all known; None if one is not."""
    return " ".join(map(_quoted, words)) if all(word.is_literal for word in words) else None


def _quoted(word: Word) -> str:
    """Return a word so that it reads like no other; a file name pattern stays as it is."""
    return word.text if word.has_glob and word.bare == word.text else quote(word.text)


def _is_known(command: Simple, first: int) -> bool:
    """Tell whether the command is known word for word, and touches no file but by its arguments."""
    words = command.words
    if first >= len(words) or words[first].has_glob:
        return False
    if not all(word.is_literal for word in words):
        return False
    return all(word.text in ("/dev/null", "1", "2") for word in command.targets)


def _words_of(line: Line, depth: int) -> list[str]:
    """Return all words of a line that may be paths, also of the shell lines in it."""
    words: list[str] = []
    for command in line.commands:
        for word in [*command.words, *command.targets]:
            pattern = word.expanded
            words.append(pattern)
            if "=" in pattern:
                words.append(pattern.partition("=")[2])
            elif pattern.startswith("-"):
                words.append(pattern[2:])
            if depth < MAX_DEPTH and re.search(r"[\s;&|<>]", word.text) and ANY not in word.pattern:
                words += _words_of(split(word.text), depth + 1)
        if len(words) > MAX_UNITS:
            return [*words[:MAX_UNITS], _UNKNOWN]
    return words


def _without_options(words: list[Word]) -> list[Word]:
    """Return git's words from its subcommand on."""
    index = 0
    while index < len(words) and words[index].text.startswith("-"):
        index += 2 if words[index].text in _GIT_WITH_VALUE else 1
    return words[index:]


def _name(pattern: str) -> str:
    """Return a program's name without its directory."""
    if ANY in pattern:
        return ANY
    return pattern.rpartition("/")[2].removeprefix("=") or pattern


def _system_name(text: str) -> str:
    """Return the name of a program that is named alone or in a system directory; else the whole text."""
    folder, slash, name = text.rpartition("/")
    return name if not slash or f"{folder}/" in _SYSTEM_FOLDERS else text


def _join(words: list[Word]) -> str:
    return " ".join(word.pattern for word in words)
