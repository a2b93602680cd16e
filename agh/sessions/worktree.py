"""Git worktrees: a directory and a branch of its own for a session, beside the others of the repository.

Promises: only what is in a commit on a branch is ever deleted; a directory in the way is moved aside; a
worktree that cannot be looked at is an error, never taken for missing; one command at a time changes the
worktrees of a repository. agh never pushes; it fetches only to restore a worktree whose branch is gone here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, TypeGuard

from agh.errors import AghError, GitFailed, NotARepository, Usage, WorktreeGone, WorktreeUnclear
from agh.home import ensure_home, make_private_dir
from agh.sessions.git import (
    alone,
    branches_in_use,
    check_free,
    check_name,
    free_branch,
    git,
    has,
    head,
    title,
    worktrees,
)

Tree = dict[str, Any]  # meta.json's worktree: id, path, branch, base; repository, origin, made_branch

CHECKOUT_LIMIT = 600.0
UNFINISHED = ("rebase-merge", "rebase-apply", "MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "BISECT_LOG")
_NO_REPOSITORY = "not a git repository"


def is_ours(tree: Tree | None) -> TypeGuard[Tree]:
    """Tell whether agh made this worktree, rather than something else noting it down."""
    return tree is not None and all(
        isinstance(tree.get(key), str) for key in ("path", "branch", "repository")
    )


def add(workspace: str, branch: str = "", name: str | None = None, root: str = "") -> tuple[Tree, str]:
    """Add a worktree; return it and the workspace inside it. The branch is here, on origin, or new from HEAD.

    `root` is where worktrees are kept, one directory each; by default it is in the home.
    """
    try:
        common = git(workspace, "rev-parse", "--git-common-dir")
        inside = git(workspace, "rev-parse", "--show-prefix").rstrip("/")
    except GitFailed as error:
        if _NO_REPOSITORY in error.message:
            raise NotARepository(workspace) from None
        raise
    repository, base = os.path.realpath(os.path.join(workspace, common)), head(workspace)
    tree_id = "wt-" + os.urandom(4).hex()
    branch = branch or free_branch(repository, f"agh/{name or tree_id}")
    check_name(repository, branch)
    folder = os.path.join(os.path.realpath(root or os.path.join(ensure_home(), "worktrees")), tree_id)
    tree: Tree = {
        "id": tree_id,
        "path": os.path.join(folder, title(repository)),
        "branch": branch,
        "base": base,
        "repository": repository,
        "origin": workspace,
        "made_branch": False,
    }
    with alone(repository):
        check_free(repository, branch)
        make_private_dir(folder)
        try:
            tree["made_branch"] = _check_out(tree, base)
            tree["base"] = head(tree["path"])
        except BaseException:
            _remove_folder(tree)
            raise
    inner = os.path.join(tree["path"], inside) if inside else str(tree["path"])
    if not os.path.isdir(inner):
        discard(tree)
        hint = f"commit a file in {inside} first"
        raise Usage(f"branch {branch} has no directory {inside}", hint=hint)
    return tree, inner


def discard(tree: Tree) -> None:
    """Undo `add`, for a session that could not be created."""
    with suppress(AghError), alone(tree["repository"]):
        git(tree["repository"], "worktree", "remove", "--force", tree["path"])
        _remove_folder(tree)
        _drop_branch(tree)


def restore(session_id: str, tree: Tree) -> list[str]:
    """Restore the worktree if it is missing; return what had to be done, in sentences."""
    if _is_there(session_id, tree):
        return []
    path, repository = tree["path"], tree["repository"]
    if not os.path.isdir(repository):
        raise WorktreeGone(session_id, path, f"its repository {repository} does not exist")
    try:
        with alone(repository):
            state = _is_there(session_id, tree)
            return [] if state else _make_again(tree, in_the_way=state is None)
    except OSError as error:
        raise WorktreeGone(session_id, path, error.strerror) from None
    except WorktreeUnclear:
        raise
    except AghError as error:
        raise WorktreeGone(session_id, path, error.message) from None


def _make_again(tree: Tree, in_the_way: bool) -> list[str]:
    """Check out the branch that was last in it, if git still knows it, else the one it was made for."""
    path, repository, remarks = tree["path"], tree["repository"], []
    if in_the_way:
        aside = f"{path}.aside-{time.time_ns()}"
        os.rename(path, aside)
        remarks.append(f"a file or directory was in the way of the worktree; it was renamed to {aside}")
    entry = worktrees(repository).get(path, {})
    if entry:
        git(repository, "worktree", "remove", "--force", path)  # what git knows of it: nothing else is there
    make_private_dir(os.path.dirname(path))
    if entry and "branch" not in entry:
        git(repository, "worktree", "add", "--detach", path, entry["HEAD"], limit=CHECKOUT_LIMIT)
        return [*remarks, f"the worktree {path} was recreated at {entry['HEAD'][:12]}"]
    branch = entry.get("branch", "").removeprefix("refs/heads/") or tree["branch"]
    check_free(repository, branch)
    if not has(repository, f"refs/heads/{branch}") and not has(repository, f"refs/remotes/origin/{branch}"):
        with suppress(GitFailed):
            git(repository, "fetch", "-q", "origin", f"refs/heads/{branch}:refs/remotes/origin/{branch}")
    _check_out({**tree, "branch": branch}, None)
    return [*remarks, f"the worktree {path} was recreated from branch {branch}"]


def release(tree: Tree, users: Iterable[str]) -> list[str]:
    """Remove the worktree if nothing is lost by it, and the branch made for it if nothing is on it.

    Return what was kept, in sentences. `users` are the other sessions that work in it.
    """
    path, repository = tree["path"], tree["repository"]
    for other in users:
        return [f"worktree {path}: session {other} uses it"]
    try:
        with alone(repository):
            state = _is_there("", tree)
            if state is None:
                return [f"worktree {path}: it no longer belongs to {repository}"]
            if state:
                if dirt := _dirt(path):
                    return [f"worktree {path}: {dirt}"]
                git(repository, "worktree", "remove", path, limit=CHECKOUT_LIMIT)
            elif path in worktrees(repository):
                git(repository, "worktree", "remove", "--force", path)
            _remove_folder(tree)
            return _drop_branch(tree)
    except WorktreeUnclear as error:
        return [f"worktree {path}: cannot find out whether it exists: {error.args[2]}"]
    except AghError as error:
        return [f"worktree {path}: {error.message}"]


def users_of(path: str, sessions: Iterable[Mapping[str, Any]]) -> list[str]:
    """List those of the sessions that work in the worktree at `path`."""
    return [
        str(session["id"])
        for session in sessions
        if (session.get("worktree") or {}).get("path") == path
        or f"{session.get('workspace_path') or ''}/".startswith(f"{path}/")
    ]


def _is_there(session_id: str, tree: Tree) -> bool | None:
    """Return True if our worktree is there, False if nothing is, None if something else is."""
    path, repository = tree["path"], tree["repository"]
    try:
        os.lstat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError as error:
        raise WorktreeUnclear(session_id, path, error.strerror) from None
    if not os.path.isdir(path):
        return None
    try:
        top, common = git(path, "rev-parse", "--show-toplevel", "--git-common-dir").split("\n")
    except GitFailed as error:
        if _NO_REPOSITORY not in error.message:
            raise WorktreeUnclear(session_id, path, error.message) from None
        if not os.path.isdir(repository):
            problem = f"its repository {repository} does not exist"
            raise WorktreeUnclear(session_id, path, problem, hint="restore the repository") from None
        return None
    ours = os.path.realpath(os.path.join(path, common)) == repository
    return True if ours and os.path.realpath(top) == os.path.realpath(path) else None


def _dirt(path: str) -> str:
    """Say what would be lost with the worktree; nothing is an empty text.

    A repository inside it has a configuration of its own, which git would obey there: it is not looked into.
    """
    listed = git(path, "ls-files", "--stage", "-z").split("\0")
    links = [entry.partition("\t")[2] for entry in listed if entry.startswith("160000 ")]
    if any(os.path.lexists(os.path.join(path, link, ".git")) for link in links):
        return "a submodule is checked out in it"
    status = git(path, "status", "--porcelain", "--untracked-files=all", "--ignore-submodules=dirty")
    changed = status.splitlines()
    if changed:
        return f"{len(changed)} file{'s' * (len(changed) > 1)} not committed"
    admin = os.path.join(path, git(path, "rev-parse", "--git-dir"))
    for name in UNFINISHED:
        if os.path.exists(os.path.join(admin, name)):
            return f"an unfinished operation ({name})"
    if not git(path, "for-each-ref", "--count=1", "--contains", "HEAD"):
        return f"commits that are on no branch ({head(path)[:12]})"
    return ""


def _drop_branch(tree: Tree) -> list[str]:
    """Delete the branch that was made for the worktree, unless there is something on it."""
    repository, branch = tree["repository"], tree["branch"]
    if not tree.get("made_branch") or not has(repository, f"refs/heads/{branch}"):
        return []
    own = git(repository, "rev-list", "--count", f"refs/heads/{branch}", f"^{tree['base']}")
    if own != "0":
        return [f"branch {branch}: {own} commit{'s' * (own != '1')} of its own"]
    if branch not in branches_in_use(repository):
        git(repository, "branch", "-q", "-D", branch)
    return []


def _check_out(tree: Tree, base: str | None) -> bool:
    """Add the worktree on its branch; True when the branch was made for it."""
    repository, path, branch = tree["repository"], tree["path"], tree["branch"]
    is_new = not has(repository, f"refs/heads/{branch}")
    if not is_new:
        arguments = [path, branch]
    elif has(repository, f"refs/remotes/origin/{branch}"):
        arguments = ["--track", "-b", branch, path, f"refs/remotes/origin/{branch}"]
    elif base is not None:
        arguments = ["--no-track", "-b", branch, path, base]
    else:
        raise GitFailed("worktree", f"branch {branch} exists neither here nor on origin")
    git(repository, "worktree", "add", *arguments, limit=CHECKOUT_LIMIT)
    return is_new


def _remove_folder(tree: Tree) -> None:
    """Remove the empty directories around a worktree that is gone."""
    for folder in (tree["path"], os.path.dirname(tree["path"])):
        with suppress(OSError):
            os.rmdir(folder)
