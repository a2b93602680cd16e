"""Sessions in git worktrees of their own: made, used, lost and made again, removed or kept."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agh.errors import WorktreeUnclear
from agh.sessions import worktree
from agh.sessions.git import git
from tests.support.build import Home
from tests.support.live import Live, Session
from tests.support.resume import edit_meta


class Repository:
    """A real repository at the test's workspace, with one commit on main."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(exist_ok=True)
        self("init", "-q", "-b", "main")
        self("config", "user.email", "me@example.org")
        self("config", "user.name", "me")
        self.commit("file.txt", "first\n")

    def __call__(self, *args: object, at: object = None) -> str:
        result = subprocess.run(
            ["git", "-C", str(at or self.path), *map(str, args)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=30,
        )
        assert result.returncode == 0, result.stderr
        return result.stdout.strip()

    def commit(self, name: str, text: str, at: Path | None = None) -> str:
        file = (at or self.path) / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        self("add", name, at=at)
        self("commit", "-qm", f"write {name}", at=at)
        return self("rev-parse", "HEAD", at=at)

    def branches(self) -> set[str]:
        return set(self("branch", "--format=%(refname:short)").splitlines())

    def worktrees(self) -> int:
        return len(self("worktree", "list").splitlines())


@pytest.fixture
def repository(live: Live) -> Repository:
    return Repository(live.workspace)


def tree_of(session: Session) -> Path:
    return Path(session.meta()["worktree"]["path"])


def branched(live: Live, *args: str) -> Session:
    return live.new(args=("--permissions", "approve-all", "--worktree", *args))


def stopped(live: Live, branch: str = "", name: str | None = None) -> Session:
    """Return a stopped session in a worktree as a new session gets it, but whose agent never ran."""
    tree, workspace = worktree.add(str(live.workspace), branch, name)
    directory = Home(live.home).session(name=name, workspace_path=workspace, worktree=tree)
    return live.session(directory.name)


def moved(session: Session, branch: str) -> Session:
    """Return a stopped session that has talked, now in a worktree as a new session gets it."""
    tree, workspace = worktree.add(str(session.live.workspace), branch)
    edit_meta(session, workspace_path=workspace, worktree=tree)
    return session


def delete(session: Session) -> list[str]:
    not_removed: list[str] = json.loads(session.agh("delete", "-o", "json").stdout)["deleted"]["not_removed"]
    return not_removed


def test_two_sessions_write_the_same_file_without_meeting(live: Live, repository: Repository) -> None:
    first, second = branched(live, "--name", "one"), branched(live, "feature/two")
    for session, text in ((first, "from one"), (second, "from two")):
        assert session.tell(f"/write file.txt {text}") == "write file.txt: ok"
    assert [(tree_of(session) / "file.txt").read_text() for session in (first, second)] == [
        "from one",
        "from two",
    ]
    assert (live.workspace / "file.txt").read_text() == "first\n"
    assert {"agh/one", "feature/two"} <= repository.branches()
    meta = first.meta()
    assert meta["workspace_path"] == meta["worktree"]["path"]
    assert meta["worktree"]["branch"] == "agh/one"
    assert meta["worktree"]["base"] == repository("rev-parse", "main")
    assert tree_of(first).name == live.workspace.name, "tools show the name of the directory they work in"
    assert tree_of(first).parent.stat().st_mode & 0o777 == 0o700
    listed = json.loads(live.agh("session", "list", "--workspace", ".", "-o", "json").stdout)["sessions"]
    assert {view["id"] for view in listed} == {first.id, second.id}, (
        "they belong to the directory they came from"
    )
    assert live.agh("session", "status", "@last").stdout.split()[1] == second.id


def test_a_worktree_that_is_gone_is_made_again(live: Live, repository: Repository) -> None:
    session = branched(live, "fix")
    repository.commit("new.txt", "kept", at=tree_of(session))
    session.tell("remember")
    session.stop()
    shutil.rmtree(tree_of(session).parent)
    result = session.prompt("what did I say?")
    assert "was recreated from branch fix" in result.stderr
    assert "remember" in result.stdout
    assert (tree_of(session) / "new.txt").read_text() == "kept"
    assert "recreated" in session.events("runtime_warning")[-1].content["text"]
    session.stop()
    assert "recreated" not in session.agh("resume").stderr


def test_it_comes_back_on_the_branch_it_was_last_on(talked: Session, repository: Repository) -> None:
    session = moved(talked, "fix")
    repository("switch", "-qc", "other", at=tree_of(session))
    shutil.rmtree(tree_of(session))
    session.agh("resume")
    assert repository("branch", "--show-current", at=tree_of(session)) == "other"
    repository("checkout", "-q", "--detach", at=tree_of(session))
    commit = repository.commit("afloat.txt", "x", at=tree_of(session))
    session.stop()
    shutil.rmtree(tree_of(session))
    session.agh("resume")
    assert repository("rev-parse", "HEAD", at=tree_of(session)) == commit


def test_a_branch_that_is_only_on_origin(
    live: Live, talked: Session, repository: Repository, tmp_path: Path
) -> None:
    origin = tmp_path / "origin.git"
    repository("clone", "-q", "--bare", live.workspace, origin)
    repository("remote", "add", "origin", origin)
    repository("push", "-q", "origin", "main:shared", "main:later")
    repository("fetch", "-q", "origin", "shared")
    session = moved(talked, "shared")
    assert repository("rev-parse", "--abbrev-ref", "shared@{upstream}") == "origin/shared"
    repository("worktree", "remove", tree_of(session))
    repository("branch", "-D", "shared")
    repository("update-ref", "-d", "refs/remotes/origin/shared")
    assert "recreated from branch shared" in session.agh("resume").stderr, "origin was asked"
    session.stop()
    repository("worktree", "remove", tree_of(session))
    repository("branch", "-D", "shared")
    repository("push", "-q", "origin", ":shared")
    repository("fetch", "-q", "--prune", "origin")
    error = session.error("resume", code=4)
    assert error["code"] == "worktree_gone"
    assert "branch shared exists neither here nor on origin" in error["message"]
    assert session.meta()["state"] == "stopped"


def test_what_is_in_the_way_is_moved_aside(talked: Session, repository: Repository) -> None:
    session = moved(talked, "fix")
    path = tree_of(session)
    repository("worktree", "remove", path)
    path.mkdir(parents=True)
    (path / "precious.txt").write_text("mine")
    assert "in the way" in session.agh("resume").stderr
    assert (path / "file.txt").exists()
    (aside,) = path.parent.glob("*.aside-*")
    assert (aside / "precious.txt").read_text() == "mine"
    session.stop()
    assert delete(session) == []
    assert not path.exists()
    assert (aside / "precious.txt").read_text() == "mine", "delete leaves it too"


def test_a_worktree_that_git_forgot_keeps_its_work(
    live: Live, talked: Session, repository: Repository
) -> None:
    session = moved(talked, "fix")
    path = tree_of(session)
    (path / "file.txt").write_text("not committed")
    shutil.rmtree(live.workspace / ".git" / "worktrees")
    session.agh("resume")
    (aside,) = path.parent.glob("*.aside-*")
    assert (aside / "file.txt").read_text() == "not committed"
    assert (path / "file.txt").read_text() == "first\n"


def test_what_cannot_be_told_is_not_missing(live: Live, talked: Session, repository: Repository) -> None:
    session = moved(talked, "fix")
    path = tree_of(session)
    broken = Path(session.directory.parent.parent, "bin")
    broken.mkdir()
    (broken / "git").write_text("#!/bin/sh\necho 'fatal: unsafe repository' >&2\nexit 128\n")
    (broken / "git").chmod(0o755)
    environ = {"PATH": f"{broken}:{os.environ['PATH']}"}
    error = session.error("resume", code=1, env=environ)
    assert error["code"] == "worktree_unclear"
    assert "unsafe repository" in error["message"]
    os.rename(live.workspace, f"{live.workspace}.moved")
    try:
        error = session.error("resume", code=1, cwd=live.home)
        assert error["code"] == "worktree_unclear", "the repository is away: its worktree is not invalid"
        assert error["hint"] == "restore the repository"
        shutil.rmtree(path)
        assert session.error("resume", code=4, cwd=live.home)["code"] == "worktree_gone"
    finally:
        os.rename(f"{live.workspace}.moved", live.workspace)
    session.agh("resume")
    assert (path / "file.txt").exists()


def test_a_path_that_cannot_be_looked_at_is_not_missing(
    live: Live, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Root can look everywhere, so the error is made here."""
    tree = stopped(live).meta()["worktree"]

    def refuse(path: str) -> None:
        raise PermissionError(13, "Permission denied", path)

    monkeypatch.setattr(os, "lstat", refuse)
    with pytest.raises(WorktreeUnclear, match="Permission denied"):
        worktree.restore("sess-x", tree)
    (words,) = worktree.release(tree, [])
    assert "exists: Permission denied" in words
    monkeypatch.undo()
    assert Path(tree["path"], "file.txt").exists()


def test_delete_removes_a_clean_one_and_its_branch(live: Live, repository: Repository) -> None:
    session = branched(live, "--name", "done")
    session.stop()
    path = tree_of(session)
    assert delete(session) == []
    assert not path.parent.exists()
    assert repository.branches() == {"main"}
    assert repository.worktrees() == 1


def test_delete_keeps_commits_and_branches_of_the_users(live: Live, repository: Repository) -> None:
    repository("branch", "theirs")
    mine, theirs = stopped(live, name="mine"), stopped(live, "theirs")
    for session in (mine, theirs):
        repository.commit("work.txt", "x", at=tree_of(session))
    assert delete(mine) == ["branch agh/mine: 1 commit of its own"]
    assert delete(theirs) == []
    assert repository.branches() == {"main", "agh/mine", "theirs"}
    assert repository.worktrees() == 1


def test_delete_says_that_it_kept_a_dirty_one(live: Live, repository: Repository) -> None:
    session = stopped(live, "fix")
    path = tree_of(session)
    (path / "file.txt").write_text("changed")
    result = session.agh("delete")
    assert f"not deleted: worktree {path}: 1 file not committed" in result.stderr
    assert (path / "file.txt").read_text() == "changed"
    assert not session.directory.exists()


@pytest.mark.parametrize(
    ("dirt", "words"),
    [
        ("untracked", "1 file not committed"),
        ("unfinished", "an unfinished operation (MERGE_HEAD)"),
        ("afloat", "commits that are on no branch"),
        ("locked", "cannot remove a locked working tree"),
        ("used", "session sess-other uses it"),
    ],
)
def test_what_could_be_lost_is_kept(tmp_path: Path, dirt: str, words: str) -> None:
    repository = Repository(tmp_path / "work")
    tree, workspace = worktree.add(str(repository.path), "fix")
    path = Path(workspace)
    if dirt == "untracked":
        (path / "new.txt").write_text("new")
    elif dirt == "unfinished":
        Path(repository("rev-parse", "--absolute-git-dir", at=path), "MERGE_HEAD").touch()
    elif dirt == "afloat":
        repository("checkout", "-q", "--detach", at=path)
        repository.commit("file.txt", "afloat", at=path)
    elif dirt == "locked":
        repository("worktree", "lock", path)
    (reason,) = worktree.release(tree, ["sess-other"] if dirt == "used" else [])
    assert reason.startswith(f"worktree {path}: ")
    assert words in reason
    assert path.exists()
    assert "fix" in repository.branches()


def test_git_asks_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "git").write_text("#!/bin/sh\nread line; echo \"got '$line'\"; env\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setenv("GIT_TERMINAL_PROMPT", "1")
    output = git(str(tmp_path), "fetch").splitlines()
    assert output[0] == "got ''"
    assert {"GIT_TERMINAL_PROMPT=0", "GIT_SSH_COMMAND=ssh -o BatchMode=yes", "LC_ALL=C"} <= set(output)


def test_delete_keeps_a_worktree_that_another_session_uses(
    live: Live, talked: Session, repository: Repository
) -> None:
    session = moved(talked, "fix")
    path = tree_of(session)
    fork = live.session(session.agh("fork").stdout.strip())
    assert fork.meta()["worktree"]["path"] == str(path)
    assert delete(session) == [f"worktree {path}: session {fork.id} uses it"]
    fork.stop()
    assert delete(fork) == []
    assert not path.exists()


def test_prune_says_what_it_kept(live: Live, repository: Repository) -> None:
    clean, dirty = stopped(live, "clean"), stopped(live, "dirty")
    paths = tree_of(clean), tree_of(dirty)
    (paths[1] / "new.txt").write_text("new")
    result = live.agh("session", "prune", "--keep", "0", "-o", "json")
    assert {
        receipt["id"]: len(receipt["not_removed"]) for receipt in json.loads(result.stdout)["pruned"]
    } == {
        clean.id: 0,
        dirty.id: 1,
    }
    assert f"not deleted: worktree {paths[1]}: 1 file not committed" in result.stderr
    assert [path.exists() for path in paths] == [False, True]


def test_bad_input_leaves_nothing_behind(live: Live, repository: Repository, tmp_path: Path) -> None:
    new = ("session", "new", "--agent", "echo")
    Home(live.home).session(name="taken", workspace_path=str(live.workspace))
    before = len(live.sessions())
    (live.workspace / "untracked").mkdir()
    (tmp_path / "plain").mkdir()
    (tmp_path / "empty").mkdir()
    subprocess.run(["git", "init", "-q", tmp_path / "empty"], check=True)
    cases: list[tuple[list[str], dict[str, object], int, str]] = [
        (["--worktree", "a..b"], {}, 2, "is not a valid branch name"),
        (["--worktree", "main"], {}, 6, f"branch main is checked out in {live.workspace}"),
        (["--worktree", "x", "--name", "taken"], {}, 6, "the name taken is already taken"),
        (["--worktree", "x", "--model", "no-such"], {}, 2, "does not offer model"),
        (["--worktree", "x", "--on", "nowhere"], {}, 4, "no place is called nowhere"),
        (["--worktree", "x"], {"cwd": live.workspace / "untracked"}, 2, "has no directory untracked"),
        (["--worktree"], {"cwd": tmp_path / "plain"}, 2, "is not in a git repository"),
        (["--worktree"], {"cwd": tmp_path / "empty"}, 2, "has no commit yet"),
    ]
    for args, options, code, words in cases:
        assert words in live.agh(*new, *args, code=code, **options).stderr
    assert len(live.sessions()) == before
    assert repository.branches() == {"main"}
    assert repository.worktrees() == 1
    assert not (live.home / "worktrees").exists() or not os.listdir(live.home / "worktrees")


def test_a_directory_inside_the_repository(live: Live, repository: Repository) -> None:
    repository.commit("deep/er/file.txt", "x")
    session = live.session(
        live.agh(
            *("session", "new", "--agent", "echo", "--worktree"), cwd=live.workspace / "deep" / "er"
        ).stdout.strip()
    )
    assert session.meta()["workspace_path"] == str(tree_of(session) / "deep" / "er")
    assert session.tell("/cwd").startswith(f"cwd: {tree_of(session)}/deep/er ")


def test_where_worktrees_are_kept_can_be_said(live: Live, repository: Repository, tmp_path: Path) -> None:
    live.configure(f'[session]\nworktrees = "{tmp_path}/scratch/trees"\n')
    session = branched(live, "fix")
    session.stop()
    assert tree_of(session).parents[1] == tmp_path / "scratch" / "trees"
    assert delete(session) == []
    assert os.listdir(tmp_path / "scratch" / "trees") == []
    live.configure('[session]\nworktrees = "trees"\n')
    result = live.agh("session", "new", "--agent", "echo", "--worktree", code=2)
    assert "'trees' is not an absolute path" in result.stderr


def test_many_at_once_in_one_repository(live: Live, repository: Repository) -> None:
    processes = [
        live.start("session", "new", "--agent", "echo", "--worktree", "-o", "json") for _ in range(4)
    ]
    outputs = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0] * 4, outputs
    branches = {json.loads(out)["session"]["worktree"]["branch"] for out, _ in outputs}
    assert len(branches) == 4
    assert repository.worktrees() == 5


def test_in_a_git_hook(live: Live, repository: Repository) -> None:
    """Git tells its hooks where they are by variables that must not lead us elsewhere."""
    environ = {"GIT_DIR": "/nowhere/.git", "GIT_WORK_TREE": "/nowhere", "GIT_INDEX_FILE": "/nowhere/index"}
    result = live.agh("session", "new", "--agent", "echo", "--worktree", "hooked", env=environ)
    session = live.session(result.stdout.strip())
    assert (tree_of(session) / "file.txt").exists()
