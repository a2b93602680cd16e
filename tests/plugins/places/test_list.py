"""One list of the sessions of several hosts, behind a real sshd. Each host is another home here."""

from __future__ import annotations

import getpass
import json
import shutil
import sys
import time
from pathlib import Path

import pytest

from agh.sessions.elsewhere.listing import build_arguments, check_view
from tests.plugins.places.wire import Wire
from tests.support.live import Live

PATH = f"PATH={Path(sys.executable).parent}:/usr/bin:/bin"
DEAD = ["-F", "none", "-p", "1"]


def place(name: str, wire: Wire, home: Path, **more: object) -> str:
    fields: dict[str, object] = {
        "on": f"ssh:{getpass.getuser()}@127.0.0.1",
        "options": wire.options,
        "env": [f"AGH_HOME={home}", PATH],
        **more,
    }
    return "\n".join(
        [f"[places.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in fields.items()), ""]
    )


@pytest.fixture(scope="module")
def root(module_live: Live) -> Path:
    """Return the directory of the other homes."""
    return module_live.home.parent


@pytest.fixture(scope="module")
def module_hosts(module_live: Live, root: Path) -> dict[str, str]:
    """Create a stopped session in each of two other homes."""
    workspace = root / "work there"
    workspace.mkdir()

    def create(home: str, name: str) -> str:
        there = Live(root / home, workspace)
        session_id = there.agh("session", "new", "--agent", "echo", "--name", name).stdout.strip()
        there.session(session_id).stop()
        there.end()
        return str(session_id)

    return {"a": create("home a", "fix-login"), "b": create("home b", "write-docs")}


@pytest.fixture
def hosts(shared_live: Live, module_wire: Wire, root: Path, module_hosts: dict[str, str]) -> dict[str, str]:
    """Name two hosts with a session each."""
    shared_live.configure(
        place("a", module_wire, root / "home a")
        + place("b", module_wire, root / "home b")
        + f'[places.dead]\non = "ssh:127.0.0.1"\noptions = {json.dumps(DEAD)}\n'
    )
    return module_hosts


def test_every_row_says_which_host_it_is_from(shared_live: Live, hosts: dict[str, str]) -> None:
    here = shared_live.new(args=("--name", "mine"))
    document = json.loads(shared_live.agh("list", "--on", ".", "--on", "a", "--on", "b", "-o", "json").stdout)
    rows = {(row["host"], row["id"], row["name"]) for row in document["sessions"]}
    assert rows == {
        (".", here.id, "mine"),
        ("a", hosts["a"], "fix-login"),
        ("b", hosts["b"], "write-docs"),
    }
    assert document["failed"] == []
    times = [row["updated_at"] for row in document["sessions"]]
    assert times == sorted(times, reverse=True), "newest first, whatever the host"
    text = shared_live.agh("session", "list", "--on", "a", "--on", "b").stdout
    header, *lines = text.splitlines()
    assert "HOST" in header.split()
    assert sorted((line.split()[0], line.split()[3]) for line in lines) == [
        ("fix-login", "a"),
        ("write-docs", "b"),
    ]
    lines = shared_live.agh("session", "list", "--on", "a", "--on", "b", "-o", "jsonl").stdout.splitlines()
    assert sorted(json.loads(line)["host"] for line in lines) == ["a", "b"]


def test_a_host_that_fails_is_named_and_the_others_are_listed(
    shared_live: Live, hosts: dict[str, str]
) -> None:
    result = shared_live.agh("list", "--on", "dead", "--on", "a", "-o", "json", code=7)
    document = json.loads(result.stdout)
    assert [(row["host"], row["id"]) for row in document["sessions"]] == [("a", hosts["a"])]
    ((failure),) = document["failed"]
    assert (failure["host"], failure["error"]["code"]) == ("dead", "place_gone")
    assert "no connection to dead: " in result.stderr
    result = shared_live.agh("list", "--on", "dead", "--on", "a", code=7)
    assert "fix-login" in result.stdout
    assert "no connection to dead: " in result.stderr


def test_a_host_without_agh_and_one_without_the_directory(
    shared_live: Live, module_wire: Wire, tmp_path: Path, root: Path, hosts: dict[str, str]
) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    for name in ("sh", "dd"):
        (bare / name).symlink_to(str(shutil.which(name)))
    shared_live.configure(
        place("bare", module_wire, tmp_path / "x", env=[f"PATH={bare}", f"HOME={tmp_path}"])
        + place("lost", module_wire, root / "home a", dir="/no/such/directory")
        + place("a", module_wire, root / "home a", dir=str(root / "work there"))
    )
    result = shared_live.agh("list", "--on", "bare", "--on", "a", code=9)
    assert "bare has no agh" in result.stderr
    assert "fix-login" in result.stdout
    result = shared_live.agh("list", "--on", "lost", code=1)
    assert "lost: its directory does not exist there" in result.stderr
    result = shared_live.agh("list", "--on", "a", "--workspace", ".", "-o", "json")
    assert [row["id"] for row in json.loads(result.stdout)["sessions"]] == [hosts["a"]], "looked up there"


def test_filters_are_applied_there_and_refusals_are_relayed(shared_live: Live, hosts: dict[str, str]) -> None:
    for arguments, count in ((["--state", "active"], 0), (["--agent", "echo"], 2), (["--limit", "1"], 1)):
        result = shared_live.agh("list", "--on", "a", "--on", "b", *arguments, "-o", "json")
        assert len(json.loads(result.stdout)["sessions"]) == count
    result = shared_live.agh("list", "--on", "a", "--workspace", "no-such-workspace", code=4)
    assert "a: " in result.stderr
    assert "no-such-workspace" in result.stderr


def test_hosts_are_asked_at_the_same_time(
    shared_live: Live, module_wire: Wire, tmp_path: Path, hosts: dict[str, str]
) -> None:
    slow = tmp_path / "slow"
    slow.mkdir()
    agh = slow / "agh"
    agh.write_text("#!/bin/sh\nsleep 2\necho '{\"sessions\": []}'\n")
    agh.chmod(0o755)
    names = [f"slow{number}" for number in range(5)]
    shared_live.configure(
        "".join(place(name, module_wire, tmp_path, env=[f"PATH={slow}:/usr/bin:/bin"]) for name in names)
    )
    began = time.monotonic()
    shared_live.agh("list", *(word for name in names for word in ("--on", name)))
    assert time.monotonic() - began < 8


def test_a_host_that_does_not_answer_is_given_up(
    shared_live: Live,
    module_wire: Wire,
    tmp_path: Path,
    root: Path,
    hosts: dict[str, str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from agh.sessions.elsewhere.listing import list_hosts

    stuck = tmp_path / "stuck"
    stuck.mkdir()
    agh = stuck / "agh"
    agh.write_text("#!/bin/sh\nexec sleep 20\n")
    agh.chmod(0o755)
    shared_live.configure(
        place("stuck", module_wire, tmp_path, env=[f"PATH={stuck}:/usr/bin:/bin"])
        + place("a", module_wire, root / "home a")
    )
    filters = {"everything": False, "resumable": False, "workspace": None, "state": None, "badge": None}
    began = time.monotonic()
    silent, listed = list_hosts(["stuck", "a"], "me", None, 4.0, **filters, agent=None, why=False)
    assert time.monotonic() - began < 8
    assert silent.error is not None and "no answer within 4 s" in silent.error.message
    assert [view["id"] for view in listed.views] == [hosts["a"]]


def test_only_a_host_has_a_list(live: Live) -> None:
    for name, exit in (("slurm", 2), ("docker:web", 2), ("nowhere", 4), ("ssh:", 2)):
        live.agh("list", "--on", name, code=exit)
    assert "leave out" in live.agh("list", "--on", ".", "--watch", code=2).stderr


def test_what_a_host_says_is_checked_before_it_is_shown() -> None:
    with pytest.raises(ValueError, match="id"):
        check_view({"id": "sess-\x1b[31m"})
    with pytest.raises(ValueError, match="id"):
        check_view("sess-00000000")
    odd = {"state": "\x1b", "badge": "\x1b", "updated_at": "soon", "current": 3, "error": {}, "name": 7}
    assert check_view({"id": "sess-0000000000", **odd, "more": 1}) == {
        "id": "sess-0000000000",
        "state": "unknown",
        "badge": "unknown",
        "updated_at": None,
        "more": 1,
    }


def test_the_arguments_are_those_of_the_command() -> None:
    filters = {"everything": True, "resumable": True, "why": False, "workspace": "-x", "state": None}
    arguments = build_arguments(3, **filters, badge="idle", agent=None)
    assert arguments[4:] == ["--all", "--resumable", "--workspace=-x", "--status=idle", "--limit=3"]
