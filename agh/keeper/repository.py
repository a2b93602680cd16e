"""Asking git about a repository, by its common directory. Git is run so that it asks nobody for anything.

A failure of git is an error with git's last words; only an answer that git gave is taken for one.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

from agh.errors import BranchTaken, GitFailed, RepositoryBusy, Usage
from agh.store import lock

GIT_LIMIT, LOCK_LIMIT = 60.0, 120.0
_OF_A_HOOK = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_PREFIX", "GIT_COMMON_DIR")
_UNFIT = r"[^\w/.-]+|\.{2,}|\.(?=/|$)|(?<=/)\.|\.lock$"


def git(directory: str, *args: str, limit: float = GIT_LIMIT) -> str:
    """What git prints. The variables of a git hook, which agh may run in, do not lead it astray."""
    import subprocess

    kept = {key: value for key, value in os.environ.items() if key not in _OF_A_HOOK}
    environ = {"GIT_SSH_COMMAND": "ssh -o BatchMode=yes", **kept, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            ["git", *args],
            cwd=directory,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=limit,
        )
    except subprocess.TimeoutExpired:
        raise GitFailed(args[0], f"it did not end within {limit:g} s") from None
    except OSError as error:
        raise GitFailed(args[0], error.strerror) from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines() or [f"exit {done.returncode}"]
        why = next((line for line in said if line.startswith(("fatal: ", "error: "))), said[-1])
        raise GitFailed(args[0], why.partition(": ")[2] or why, status=done.returncode)
    return os.fsdecode(done.stdout).rstrip("\n")


@contextmanager
def alone(repository: str) -> Iterator[None]:
    """Hold the repository's lock: two commands that add worktrees at once would meet in git's own files."""
    folder = os.path.join(repository, "agh")
    deadline = time.monotonic() + LOCK_LIMIT
    try:
        os.makedirs(folder, exist_ok=True)
        while (held := lock.take(folder)) is None:
            if time.monotonic() > deadline:
                raise RepositoryBusy(repository)
            time.sleep(0.02)
    except OSError as error:
        raise GitFailed("worktree", f"{folder}: {error.strerror}") from None
    with held:
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
    """The commit that is checked out."""
    try:
        return git(directory, "rev-parse", "--verify", "HEAD^{commit}")
    except GitFailed:
        raise Usage("the repository has no commit yet", hint="git commit --allow-empty -m start") from None


def worktrees(repository: str) -> dict[str, dict[str, str]]:
    """What git knows of each worktree, by its path: HEAD, and branch, a full name, if it is on one."""
    found = {}
    for block in git(repository, "worktree", "list", "--porcelain").split("\n\n"):
        fields = {key: value for key, _, value in (line.partition(" ") for line in block.splitlines())}
        if "worktree" in fields:
            found[fields.pop("worktree")] = fields
    return found


def branches_in_use(repository: str) -> dict[str, str]:
    """The worktree of each branch that is checked out."""
    used = {one["branch"]: path for path, one in worktrees(repository).items() if "branch" in one}
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
        raise Usage(f"{branch!r} cannot be a branch", hint="see git-check-ref-format(1)") from None


def free_branch(repository: str, wanted: str) -> str:
    """The wanted name made fit for git, or one like it that is not a branch yet."""
    name = re.sub(_UNFIT, "-", wanted)
    number, free = 1, name
    while has(repository, f"refs/heads/{free}"):
        number += 1
        free = f"{name}-{number}"
    return free


def title(repository: str) -> str:
    """The repository's own name: tools show the name of the directory they work in."""
    folder, last = os.path.split(repository)
    return os.path.basename(folder) if last == ".git" else last.removesuffix(".git") or "worktree"
