"""Conversations that Claude Code and Codex kept, as sessions; the lines are such as the programs write."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from agh.adapters import registry
from agh.home import Session
from agh.sessions.import_ import import_file, index_home
from agh.store.reader import Reader
from agh.store.views import messages
from agh.store.writer import Writer
from tests.support.build import Home, says, take_lock
from tests.support.files import tree
from tests.support.live import Live
from tests.support.program import Agh, in_process

CLAUDE = "c7d1fb1a-0885-4d8b-8427-0f09a0c1a94f"
CODEX = "019a2d7a-41c4-78b1-b7cc-a45d62a89cd5"


class Kept:
    """A file of one of the programs, made line by line."""

    def __init__(self, path: Path) -> None:
        self.path, self.second = path, 0
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()

    def at(self) -> str:
        self.second += 1
        return f"2026-01-20T11:{self.second // 60:02d}:{self.second % 60:02d}.716Z"

    def add(self, *lines: dict[str, Any] | str) -> None:
        with self.path.open("a") as file:
            for line in lines:
                file.write(line if isinstance(line, str) else json.dumps(line) + "\n")


class Claude(Kept):
    def __init__(self, root: Path, cwd: str, session: str = CLAUDE) -> None:
        super().__init__(root / "projects" / cwd.replace("/", "-") / f"{session}.jsonl")
        self.cwd, self.session = cwd, session

    def line(self, type: str, **fields: Any) -> dict[str, Any]:
        common = {"parentUuid": None, "isSidechain": False, "userType": "external", "cwd": self.cwd}
        common |= {
            "sessionId": self.session,
            "version": "2.1.12",
            "gitBranch": "main",
            "uuid": f"u{self.second}",
        }
        return {**common, "type": type, "timestamp": self.at(), **fields}

    def user(self, content: Any, **fields: Any) -> None:
        self.add(self.line("user", message={"role": "user", "content": content}, **fields))

    def model(self, message: str, *parts: dict[str, Any], stop: str | None = None, **fields: Any) -> None:
        """A line per block, as the program writes them; each repeats the usage of the whole message."""
        usage = {
            "input_tokens": 3,
            "output_tokens": 20,
            "cache_read_input_tokens": 100,
            "cache_creation_input_tokens": 7,
        }
        for part in parts:
            said = {"model": "claude-opus-4-5", "id": message, "type": "message", "role": "assistant"}
            said |= {"content": [part], "stop_reason": stop, "usage": usage}
            self.add(self.line("assistant", message=said, requestId="req_1", **fields))

    def talk(self) -> None:
        self.add({"type": "summary", "summary": "Why the login test fails", "leafUuid": "x"})
        self.add(
            {"type": "file-history-snapshot", "messageId": "m", "snapshot": {}, "isSnapshotUpdate": False}
        )
        self.user("<command-name>/model</command-name>")
        self.user("Caveat: the messages below", isMeta=True)
        self.user("why does the login test fail?")
        self.model(
            "msg_1",
            {"type": "thinking", "thinking": "Look at it.", "signature": "x"},
            {"type": "text", "text": "I look."},
        )
        self.model(
            "msg_1",
            {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "pytest -k login"}},
            stop="tool_use",
        )
        self.user(
            [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_1",
                    "content": "1 failed: kumquat",
                    "is_error": True,
                }
            ],
            toolUseResult={"stdout": "1 failed: kumquat", "stderr": "", "interrupted": False},
        )
        self.user([{"type": "text", "text": "inside a subagent"}], isSidechain=True)
        self.model("msg_2", {"type": "text", "text": "The clock is wrong."}, stop="end_turn")
        self.user(
            [{"type": "text", "text": "fix it"}, {"type": "image", "source": {"type": "base64", "data": "…"}}]
        )
        self.model(
            "msg_3",
            {"type": "tool_use", "id": "toolu_2", "name": "Edit", "input": {"file_path": "/r/login.py"}},
        )
        self.user(
            [
                {
                    "type": "tool_result",
                    "tool_use_id": "toolu_2",
                    "content": [{"type": "text", "text": "done"}],
                }
            ],
            toolUseResult={"filePath": "/r/login.py", "structuredPatch": []},
        )
        self.user([{"type": "text", "text": "[Request interrupted by user]"}])


class Codex(Kept):
    def __init__(self, root: Path, cwd: str, session: str = CODEX) -> None:
        super().__init__(
            root / "sessions" / "2026" / "01" / "20" / f"rollout-2026-01-20T11-00-00-{session}.jsonl"
        )
        self.cwd, self.session = cwd, session

    def line(self, frame: str, **payload: Any) -> None:
        self.add({"timestamp": self.at(), "type": frame, "payload": payload})

    def item(self, type: str, **fields: Any) -> None:
        self.line("response_item", type=type, **fields)

    def event(self, type: str, **fields: Any) -> None:
        self.line("event_msg", type=type, **fields)

    def user(self, text: str) -> None:
        self.item("message", role="user", content=[{"type": "input_text", "text": text}])
        self.event("user_message", message=text, images=[], kind="plain")

    def says(self, text: str) -> None:
        self.event("agent_message", message=text)
        self.item("message", role="assistant", content=[{"type": "output_text", "text": text}])

    def count(self, total: int) -> None:
        usage = {
            "input_tokens": total,
            "cached_input_tokens": 1,
            "output_tokens": 5,
            "reasoning_output_tokens": 2,
            "total_tokens": total + 5,
        }
        self.event(
            "token_count",
            info={"total_token_usage": usage, "last_token_usage": usage, "model_context_window": 272000},
        )

    def talk(self) -> None:
        meta = {"id": self.session, "timestamp": self.at(), "cwd": self.cwd, "originator": "codex_cli_rs"}
        self.line("session_meta", **meta, cli_version="0.65.0", instructions=None, source="cli", git={})
        self.item(
            "message",
            role="developer",
            content=[{"type": "input_text", "text": "<permissions instructions>"}],
        )
        self.item(
            "message", role="user", content=[{"type": "input_text", "text": "<environment_context>\n…"}]
        )
        self.line("turn_context", cwd=self.cwd, approval_policy="never", model="gpt-5-codex", effort="high")
        self.user("why does the login test fail?")
        self.event("agent_reasoning", text="**Looking**")
        self.item(
            "reasoning",
            summary=[{"type": "summary_text", "text": "**Looking**"}],
            content=None,
            encrypted_content="gAAA",
        )
        arguments = json.dumps({"command": ["bash", "-lc", "pytest -k login"], "workdir": self.cwd})
        self.item("function_call", name="shell", arguments=arguments, call_id="call_1")
        output = json.dumps(
            {"output": "1 failed: kumquat", "metadata": {"exit_code": 1, "duration_seconds": 0.1}}
        )
        self.item("function_call_output", call_id="call_1", output=output)
        self.count(100)
        self.says("The clock is wrong.")
        self.count(150)
        self.event("task_complete", turn_id="1", last_agent_message="The clock is wrong.")
        self.user("fix it")
        self.item(
            "custom_tool_call",
            status="completed",
            call_id="call_2",
            name="apply_patch",
            input="*** Begin Patch",
        )
        self.item(
            "custom_tool_call_output",
            call_id="call_2",
            output="Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess.",
        )
        self.item("web_search_call", status="completed", action={"type": "search", "query": "clocks"})
        self.count(400)
        self.event("turn_aborted", reason="interrupted")


@pytest.fixture
def claude(tmp_path: Path) -> Claude:
    made = Claude(tmp_path / "user" / ".claude", str(tmp_path / "repo"))
    made.talk()
    return made


@pytest.fixture
def codex(tmp_path: Path) -> Codex:
    made = Codex(tmp_path / "user" / ".codex", str(tmp_path / "repo"))
    made.talk()
    return made


def told_by(*args: object) -> str:
    """Return what a command prints, run in this process: most of these tests are tables of many commands."""
    result = in_process("session", *map(str, args))
    assert result.returncode == 0, result.stderr
    return result.stdout


def imports(*args: object) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(told_by("import", *args, "-o", "json"))["imports"]
    return found


def transcript(session_id: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in told_by("transcript", session_id, "-o", "jsonl").splitlines()]


def told(session_id: str) -> list[tuple[str, Any]]:
    """Return what was said and done, in short."""
    short = {"tool_call": "title", "tool_result": "tool_result"}
    return [
        (message["role"], message.get(short.get(message["role"], "content")))
        for message in transcript(session_id)
    ]


def turns(session_id: str) -> list[str | None]:
    lines = told_by("history", session_id, "-o", "jsonl").splitlines()
    return [json.loads(line)["stop_reason"] for line in lines]


def test_claude(home: Home, claude: Claude, tmp_path: Path) -> None:
    before = tree(tmp_path / "user" / ".claude")
    (report,) = imports("--from", "claude")
    assert report["status"] == "imported"
    assert tree(tmp_path / "user" / ".claude") == before
    assert told(report["session_id"]) == [
        ("user", "why does the login test fail?"),
        ("assistant", "I look."),
        ("tool_call", "pytest -k login"),
        ("tool_result", {"error": "1 failed: kumquat"}),
        ("assistant", "The clock is wrong."),
        ("user", "fix it\n[image]"),
        ("tool_call", "/r/login.py"),
        ("tool_result", {"content": "done", "file_path": "/r/login.py"}),
    ]
    assert transcript(report["session_id"])[1]["thinking"] == "Look at it."
    assert turns(report["session_id"]) == ["end_turn", "cancelled"]
    session = json.loads(told_by("status", report["session_id"], "-o", "json"))["session"]
    expected = {
        "agent_name": "claude",
        "acp_session_id": CLAUDE,
        "acp_session_ids": [CLAUDE],
        "workspace_path": str(tmp_path / "repo"),
        "title": "Why the login test fails",
        "model": None,  # the agent may not offer what it ran on then
        "state": "stopped",
        "turns": 2,
        "is_resumable": True,
        "created_at": "2026-01-20T11:00:01.716Z",
    }
    assert {key: session[key] for key in expected} == expected
    usage = json.loads(told_by("usage", report["session_id"], "-o", "json"))["usage"]
    assert (usage[0]["output_tokens"], usage[0]["cached_read_tokens"]) == (40, 200)


def test_codex(home: Home, codex: Codex, tmp_path: Path) -> None:
    before = tree(tmp_path / "user" / ".codex")
    (report,) = imports("--from", "codex")
    assert tree(tmp_path / "user" / ".codex") == before
    assert told(report["session_id"]) == [
        ("user", "why does the login test fail?"),
        ("assistant", ""),
        ("tool_call", "bash -lc pytest -k login"),
        ("tool_result", {"error": "1 failed: kumquat"}),
        ("assistant", "The clock is wrong."),
        ("user", "fix it"),
        ("tool_call", "apply_patch"),
        ("tool_result", {"content": "Exit code: 0\nWall time: 0 seconds\nOutput:\nSuccess."}),
        ("tool_call", "clocks"),
        ("tool_result", {}),
    ]
    assert turns(report["session_id"]) == ["end_turn", "cancelled"]
    meta = json.loads((home.path / "sessions" / report["session_id"] / "meta.json").read_bytes())
    assert (meta["agent_name"], meta["acp_session_id"], meta["model"]) == ("codex", CODEX, None)
    assert meta["imported"]["model"] == "gpt-5-codex"
    assert meta["workspace_path"] == str(tmp_path / "repo")
    usage = json.loads(told_by("usage", report["session_id"], "-o", "json"))["usage"]
    assert [turn["input_tokens"] for turn in usage] == [150, 250]


def test_an_older_rollout_has_only_items(home: Home, tmp_path: Path) -> None:
    old = Codex(tmp_path / "user" / ".codex", "/repo")
    old.add(
        {
            "id": CODEX,
            "timestamp": "2025-07-01T10:00:00.000Z",
            "instructions": None,
            "git": {"branch": "main"},
        },
        {"record_type": "state"},
        {
            "type": "message",
            "id": None,
            "role": "user",
            "content": [{"type": "input_text", "text": "<environment_context>…"}],
        },
        {"type": "message", "id": None, "role": "user", "content": [{"type": "input_text", "text": "hello"}]},
        {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "g"},
        {
            "type": "local_shell_call",
            "call_id": "c",
            "status": "completed",
            "action": {"type": "exec", "command": ["ls"]},
        },
        {"type": "function_call_output", "call_id": "c", "output": {"content": "file", "success": True}},
        {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "hi"}],
        },
    )
    (report,) = imports(old.path)
    assert told(report["session_id"]) == [
        ("user", "hello"),
        ("tool_call", "ls"),
        ("tool_result", {"content": "file"}),
        ("assistant", "hi"),
    ]
    assert turns(report["session_id"]) == ["end_turn"]


def test_what_is_imported_is_found_by_a_search(
    home: Home, agh: Agh, claude: Claude, codex: Codex, tmp_path: Path
) -> None:
    agh("session", "import", claude.path, codex.path)
    (tmp_path / "repo").mkdir()
    result = agh(
        "session", "search", "kumquat", "--role", "tool_result", "-o", "jsonl", cwd=tmp_path / "repo"
    )
    assert sorted(json.loads(line)["agent_name"] for line in result.stdout.splitlines()) == [
        "claude",
        "codex",
    ]


@pytest.mark.parametrize("kind", ["claude", "codex"])
def test_the_same_file_twice_is_one_session(home: Home, kind: str, request: pytest.FixtureRequest) -> None:
    conversation: Kept = request.getfixturevalue(kind)
    (first,) = imports("--from", kind)
    before = tree(home.path / "sessions")
    os.utime(conversation.path)  # touched, but not changed
    for args in (["--from", kind], [conversation.path], ["--from", kind, conversation.path.parent]):
        (again,) = imports(*args)
        assert (again["session_id"], again["status"]) == (first["session_id"], "unchanged")
    assert {name: entry[3] for name, entry in tree(home.path / "sessions").items() if "events" in name} == {
        name: one[3] for name, one in before.items() if "events" in name
    }


@pytest.mark.parametrize("kind", ["claude", "codex"])
def test_what_a_file_has_more_is_appended(home: Home, kind: str, request: pytest.FixtureRequest) -> None:
    """Cut after any line, imported, and imported again whole: the session tells what the whole file tells."""
    conversation: Kept = request.getfixturevalue(kind)
    importer = registry.importers()[kind]
    lines = conversation.path.read_text().splitlines(keepends=True)

    def take() -> tuple[str, Path]:
        found = import_file(str(conversation.path), importer, index_home())
        return found["status"], home.path / "sessions" / str(found["session_id"])

    def shown(directory: Path) -> list[tuple[object, ...]]:
        told = messages(Session.at(directory))
        return [
            (message["role"], message.get("content"), message.get("tool_result"), message["timestamp"])
            for message in told
        ]

    _, directory = take()
    expected = shown(directory)
    for cut in range(6, len(lines)):
        shutil.rmtree(directory)
        conversation.path.write_text(
            "".join(lines[:cut]) + lines[cut][:20]
        )  # and a line that is being written
        take()
        conversation.path.write_text("".join(lines))
        assert take() == ("grown", directory), cut
        assert shown(directory) == expected
        with Reader(Session.at(directory)) as reader:
            rows = list(reader.rows())
        assert [row.sequence for row in rows] == list(range(1, len(rows) + 1))
        ends = [row.turn_id for row in rows if row.type == "done"]
        assert len(set(ends)) == 2 and len(ends) <= 3  # an end that was guessed stays
        document = json.loads((directory / "meta.json").read_bytes())
        assert (document["last_sequence"], document["turns"]) == (len(rows), 2)
        assert take() == ("unchanged", directory)


def test_a_session_that_went_on_in_agh_knows_better(home: Home, claude: Claude) -> None:
    (report,) = imports(claude.path)
    directory = home.path / "sessions" / report["session_id"]
    with take_lock(directory) as owner, Writer(owner, "claude") as log:
        log.append([says("from agh")])
    claude.user("more")
    before = tree(directory)
    (again,) = imports(claude.path)
    assert again["status"] == "skipped" and "continued in agh" in again["reason"]
    assert tree(directory) == before


def test_a_conversation_that_agh_ran_is_not_imported(home: Home, claude: Claude) -> None:
    mine = home.session([says("x")], acp_session_ids=[CLAUDE], acp_session_id=CLAUDE, agent_name="claude")
    (report,) = imports("--from", "claude")
    assert (report["session_id"], report["status"]) == (mine.name, "skipped")
    assert len(list((home.path / "sessions").iterdir())) == 1


def test_a_live_session_is_left_alone(home: Home, claude: Claude) -> None:
    (report,) = imports(claude.path)
    claude.user("more")
    with take_lock(home.path / "sessions" / report["session_id"]):
        (again,) = imports(claude.path)
    assert (again["status"], again["reason"]) == ("skipped", "the session is live")


def test_files_as_they_are_found(home: Home, claude: Claude) -> None:
    """Broken lines are told, odd ones are kept, and nothing of it is a failure."""
    claude.add("\x00\x00\x00\n", "[1, 2]\n", '{"type": "user", "half', "\n")
    claude.add({"type": "hologram", "timestamp": claude.at(), "sessionId": CLAUDE, "x": 1})
    claude.add(
        '{"type":"user","timestamp":"2026-01-20T12:00:00Z",'
        '"message":{"role":"user","content":"lone \\ud83d surrogate"}}\n'
    )
    claude.add(
        {"type": "user", "message": "odd"},
        {"type": "assistant", "message": {"content": [7, {"type": "text"}]}},
    )
    claude.add(
        {
            "type": "assistant",
            "isApiErrorMessage": True,
            "message": {"content": [{"type": "text", "text": "API Error: 529"}]},
        }
    )
    claude.path.with_name("agent-a748733.jsonl").write_text(claude.path.read_text())
    empty = Claude(claude.path.parents[2], "/elsewhere", "d7d1fb1a-0885-4d8b-8427-0f09a0c1a94f")
    empty.add({"type": "file-history-snapshot", "messageId": "m", "snapshot": {}})
    by_status = {report["status"]: report for report in imports("--from", "claude")}
    assert set(by_status) == {"imported", "skipped"}
    assert by_status["skipped"]["reason"] == "it has no messages"
    lines = told_by("events", by_status["imported"]["session_id"], "--type", "system", "--type", "error")
    titles = [json.loads(line)["content"] for line in lines.splitlines()]
    assert sum("is not JSON" in title.get("title", "") for title in titles) == 3
    assert any(title.get("title") == "unknown: hologram" and title["raw"]["x"] == 1 for title in titles)
    assert any(title.get("error") == "API Error: 529" for title in titles)
    assert ("user", "lone ? surrogate") in told(by_status["imported"]["session_id"])


def test_nothing_there(home: Home, agh: Agh, tmp_path: Path) -> None:
    assert "found no claude files" in agh("session", "import", "--from", "claude", code=4).stderr
    assert "below" in agh("session", "import", "--from", "codex", tmp_path / "user", code=4).stderr
    other = tmp_path / "other.jsonl"
    other.write_text('{"hello": 1}\n')
    assert (
        "its format is not one of jsonl, db, gemini, claude, codex"
        in agh("session", "import", other, code=2).stderr
    )
    assert not home.path.exists() or not (home.path / "sessions").exists()


def test_two_imports_at_once_make_one_session(home: Home, agh: Agh, claude: Claude, codex: Codex) -> None:
    import subprocess

    started = [
        agh.start("session", "import", claude.path, codex.path, "-o", "json", stdout=subprocess.PIPE)
        for _ in range(4)
    ]
    told = [json.loads(process.communicate(timeout=60)[0])["imports"] for process in started]
    assert [process.returncode for process in started] == [0] * 4
    assert sorted(one["status"] for each in told for one in each) == ["imported"] * 2 + ["unchanged"] * 6
    assert len(list((home.path / "sessions").iterdir())) == 2


def test_resumes_natively(live: Live, tmp_path: Path) -> None:
    """The agent gets its own id and directory back. The scripted agent stands in under the other's name."""
    origin = live.new()
    origin.say("the word is kumquat")
    token = origin.meta()["acp_session_id"]
    origin.stop()
    shutil.rmtree(origin.directory)
    conversation = Claude(tmp_path / "user" / ".claude", str(live.workspace), token)
    conversation.user("the word is kumquat")
    conversation.model("msg_1", {"type": "text", "text": "noted"}, stop="end_turn")
    (live.home / "agents").mkdir(mode=0o700)
    (live.home / "agents" / "claude.toml").write_text(f'argv = ["{sys.executable}", "-m", "agh_echo"]\n')
    (report,) = json.loads(live.agh("session", "import", conversation.path, "-o", "json").stdout)["imports"]
    session = live.session(report["session_id"])
    session.say("go on")
    (resumed,) = session.events("session_resumed")
    assert resumed.content["strategy"] == "native_resume"
    assert resumed.content["acp_session_id"] == session.meta()["acp_session_id"] == token
    assert session.markers() == []
    session.check_log()
