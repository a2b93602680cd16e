"""Running git on a repository, named by its common directory.

Promises: git asks nobody for anything, and runs nothing that the repository's own configuration names (an
agent may have written it): no hook, file system monitor, filter, external diff, pager, credential helper or
transport command. The user's own configuration, outside the repository, stays in force. A failure of git is
an error with git's last words; only an answer that git gave is taken for one.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from agh.errors import BranchTaken, GitFailed, RepositoryBusy, Usage
from agh.store import lock as locks

GIT_LIMIT, LOCK_LIMIT = 60.0, 120.0
_OF_A_HOOK = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")
# Settings for every call, whatever the repository says. An empty credential helper clears those before it.
_SAFE = {
    "core.hooksPath": os.devnull,
    "core.fsmonitor": "false",
    "core.askPass": "",
    "core.alternateRefsCommand": "",
    "core.gitProxy": "",
    "core.pager": "cat",
    "core.editor": "false",
    "credential.helper": "",
    "diff.external": "",
    "fetch.recurseSubmodules": "false",
    "protocol.ext.allow": "never",
    "submodule.recurse": "false",
}
_PROTOCOLS = ("git", "http", "https", "ssh", "file")
_OWN_SERVER = r"remote\..*\.uploadpack"  # of several the first counts, so it cannot be set to another value
# What a repository may name a program in, and the value that runs none.
_RUNS = {
    r"filter\..*\.(clean|smudge|process)": "",
    r"filter\..*\.required": "false",
    r"diff\..*\.(command|textconv)": "",
    r"merge\..*\.driver": "",
    r"lfs\.(.*\.)?standalonetransferagent": "",
    r"lfs\.customtransfer\..*\.(path|args)": "",
    r"lfs\.extension\..*\.(clean|smudge)": "",
    r"lfs\.(.*\.)?sshtransfer": "never",
    r"credential\..*\.helper": "",
}
_UNFIT = r"[^\w/.-]+|\.{2,}|\.(?=/|$)|(?<=/)\.|\.lock$"


def git(directory: str, *args: str, limit: float = GIT_LIMIT) -> str:
    """Return what git prints, running nothing that the repository's configuration names.

    The variables of a git hook, which agh may run in, do not lead it astray.
    """
    names = _own_settings(directory)
    settings = {name: value for pattern, value in _RUNS.items() for name in names if _is(pattern, name)}
    # With a file as its address, git would run the remote's server on this machine.
    protocols = _PROTOCOLS[:-1] if any(_is(_OWN_SERVER, name) for name in names) else _PROTOCOLS
    return _run(directory, args, {**_SAFE, **settings}, protocols, limit)


def _own_settings(directory: str) -> list[str]:
    """List the names of the settings that the repository itself has."""
    try:
        listed = _run(directory, ("config", "--list", "--show-scope", "--name-only", "--null"), _SAFE)
    except GitFailed:  # not a repository, or the command itself will say what is wrong with it
        return []
    words = listed.split("\0")
    return [
        name for scope, name in zip(words[::2], words[1::2], strict=False) if scope in ("local", "worktree")
    ]


def _is(pattern: str, name: str) -> bool:
    return re.fullmatch(pattern, name, re.IGNORECASE | re.DOTALL) is not None


def _run(
    directory: str,
    args: Sequence[str],
    settings: Mapping[str, str],
    protocols: Sequence[str] = (),
    limit: float = GIT_LIMIT,
) -> str:
    """Return what git prints, with these settings above those of any file."""
    import subprocess

    environ = {key: value for key, value in os.environ.items() if key not in _OF_A_HOOK}
    environ = {"GIT_SSH_COMMAND": "ssh -o BatchMode=yes", **environ}  # it wins over core.sshCommand
    environ |= {"GIT_TERMINAL_PROMPT": "0", "GIT_ALLOW_PROTOCOL": ":".join(protocols), "LC_ALL": "C"}
    count = environ.get("GIT_CONFIG_COUNT", "")
    first = int(count) if count.isdecimal() else 0  # after the user's own, so that ours win
    environ["GIT_CONFIG_COUNT"] = str(first + len(settings))
    for number, (name, value) in enumerate(settings.items(), first):
        environ |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    try:
        process = subprocess.run(
            ["git", "--no-pager", *args],
            cwd=directory,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        raise GitFailed(args[0], f"it took longer than {limit:g} s") from None
    except OSError as error:
        raise GitFailed(args[0], error.strerror) from None
    if process.returncode:
        lines = process.stderr.decode(errors="replace").strip().splitlines()
        lines = lines or [f"exit {process.returncode}"]
        reason = next((line for line in lines if line.startswith(("fatal: ", "error: "))), lines[-1])
        raise GitFailed(args[0], reason.partition(": ")[2] or reason, status=process.returncode)
    return os.fsdecode(process.stdout).rstrip("\n")


@contextmanager
def alone(repository: str) -> Iterator[None]:
    """Hold the repository's lock: two commands that add worktrees at once would meet in git's own files."""
    folder = os.path.join(repository, "agh")
    deadline = time.monotonic() + LOCK_LIMIT
    try:
        os.makedirs(folder, exist_ok=True)
        while (lock := locks.take_directory(folder)) is None:
            if time.monotonic() > deadline:
                raise RepositoryBusy(repository)
            time.sleep(0.02)
    except OSError as error:
        hint = f"check whether you may write to {repository}"
        raise GitFailed("worktree", f"{folder}: {error.strerror}", hint=hint) from None
    with lock:
        yield


def has(repository: str, ref: str) -> bool:
    try:
        git(repository, "show-ref", "--verify", "--quiet", ref)
    except GitFailed as error:
        if error.details.get("status") != 1:
            raise
        return False
    return True


def head(directory: str) -> str:
    """Return the commit that is checked out."""
    try:
        return git(directory, "rev-parse", "--verify", "HEAD^{commit}")
    except GitFailed:
        raise Usage("the repository has no commit yet", hint="git commit --allow-empty -m start") from None


def worktrees(repository: str) -> dict[str, dict[str, str]]:
    """Return what git knows of each worktree, by its path: HEAD, and branch, a full name, if it is on one."""
    known_trees = {}
    for block in git(repository, "worktree", "list", "--porcelain").split("\n\n"):
        fields = {key: value for key, _, value in (line.partition(" ") for line in block.splitlines())}
        if "worktree" in fields:
            known_trees[fields.pop("worktree")] = fields
    return known_trees


def branches_in_use(repository: str) -> dict[str, str]:
    """Return the worktree of each branch that is checked out."""
    used = {tree["branch"]: path for path, tree in worktrees(repository).items() if "branch" in tree}
    return {name.removeprefix("refs/heads/"): path for name, path in used.items()}


def check_free(repository: str, branch: str) -> None:
    where = branches_in_use(repository).get(branch)
    if where is not None:
        raise BranchTaken(branch, where)


def check_name(repository: str, branch: str) -> None:
    try:
        if branch.startswith("-"):
            raise GitFailed("check-ref-format", branch)
        git(repository, "check-ref-format", f"refs/heads/{branch}")
    except GitFailed:
        raise Usage(f"{branch!r} is not a valid branch name", hint="see git-check-ref-format(1)") from None


def free_branch(repository: str, preferred: str) -> str:
    """Return the name made fit for git, or one like it that is not a branch yet."""
    name = re.sub(_UNFIT, "-", preferred)
    number, free = 1, name
    while has(repository, f"refs/heads/{free}"):
        number += 1
        free = f"{name}-{number}"
    return free


def title(repository: str) -> str:
    """Return the repository's own name: tools show the name of the directory they work in."""
    folder, last = os.path.split(repository)
    return os.path.basename(folder) if last == ".git" else last.removesuffix(".git") or "worktree"
