"""The editor's unsaved buffers and terminals, lent to the agent while the editor has the session open."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from agh_acp.hands import Hands

from agh import home
from agh.keeper import protocol
from tests.plugins.acp.client import Client, Message
from tests.support.live import Live, Session
from tests.support.processes import kill
from tests.support.wait import PATIENCE, wait_until

LENDS = {"fs": {"readTextFile": True, "writeTextFile": True}, "terminal": True}


class Editor(Client):
    """A client with buffers that are not saved, and terminals that are real processes."""

    def __init__(self, live: Live, *options: str, **capabilities: Any) -> None:
        super().__init__(live, "--agent", "echo", *(options or ("--permissions", "approve-all")))
        self.buffers: dict[str, str] = {}
        self.terminals: dict[str, subprocess.Popen[str]] = {}
        self.answers |= {
            "fs/read_text_file": self._read_buffer,
            "fs/write_text_file": self._write_buffer,
            "terminal/create": self._create,
            "terminal/output": lambda request: {"output": "from the editor", "truncated": False},
            "terminal/wait_for_exit": self._wait_for_exit,
            "terminal/kill": lambda request: {},
            "terminal/release": lambda request: {},
        }
        self.initialize(**{**LENDS, **capabilities})

    def _read_buffer(self, request: Message) -> Any:
        return {"content": self.buffers[request["params"]["path"]]}

    def _write_buffer(self, request: Message) -> Any:
        self.buffers[request["params"]["path"]] = request["params"]["content"]
        return {}

    def _create(self, request: Message) -> Any:
        params = request["params"]
        environ = {entry["name"]: entry["value"] for entry in params["env"]}
        name = f"editor-{len(self.terminals)}"
        self.terminals[name] = subprocess.Popen(
            [params["command"], *params["args"]],
            cwd=params["cwd"],
            env=environ,
            stdout=subprocess.PIPE,
            text=True,
        )
        return {"terminalId": name}

    def _wait_for_exit(self, request: Message) -> Any:
        process = self.terminals[request["params"]["terminalId"]]
        process.communicate(timeout=PATIENCE)
        return {"exitCode": process.returncode, "signal": None}


@pytest.fixture
def file(live: Live) -> Path:
    file = live.workspace / "notes.txt"
    file.write_text("on disk")
    return file


def said(client: Client, session: Session, text: str) -> str:
    """Prompt; return what the agent says."""
    before = len(client.text(session))
    client.prompt(session, text)
    return client.text(session)[before:]


def test_the_agent_reads_and_writes_unsaved_buffers(live: Live, file: Path) -> None:
    editor = Editor(live)
    editor.buffers[str(file)] = "not saved"
    session = editor.new()
    assert said(editor, session, f"/read {file}") == f"read {file}: not saved"
    assert said(editor, session, f"/write {file} by the agent") == f"write {file}: ok"
    assert editor.buffers[str(file)] == "by the agent"
    assert file.read_text() == "on disk"
    editor.call("session/close", sessionId=session.id)
    assert session.say(f"/read {file}") == f"read {file}: on disk"


def test_a_prompt_from_elsewhere_uses_the_open_editor(live: Live, file: Path) -> None:
    session = live.new(args=("--permissions", "approve-all"))
    editor = Editor(live)
    editor.buffers[str(file)] = "not saved"
    editor.load(session)

    def reads_the_buffer() -> bool:  # it is lent soon after the session was opened
        return session.say(f"/read {file}") == f"read {file}: not saved"

    wait_until(reads_the_buffer, what="the editor's buffer")
    session.call("attach", holder="another editor", ttl=60)
    turn = session.call("prompt", prompt=[{"type": "text", "text": f"/read {file}"}], holder="another editor")
    wait_until(lambda: session.has_ended(turn["turn_id"]), what="the end of the turn")
    assert session.text(turn["turn_id"]) == f"read {file}: on disk"


def test_permissions_and_the_boundary_come_first(live: Live, file: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("outside")
    editor = Editor(live, "--permissions", "deny-all")
    session = editor.new()
    assert "outside the workspace" in said(editor, session, f"/read {secret}")
    assert "not allowed" in said(editor, session, f"/write {file} x")
    assert "not allowed" in said(editor, session, "/run echo hello")
    methods = {message.get("method", "") for message in editor.messages}
    assert not [method for method in methods if method.startswith(("fs/", "terminal/"))]


@pytest.mark.parametrize("how", ["error", "nonsense", "silence"])
def test_an_editor_that_fails_or_is_silent_is_not_waited_for(live: Live, file: Path, how: str) -> None:
    editor = Editor(live)
    editor.answers.pop("fs/read_text_file")
    session = editor.new()
    number = editor.start_prompt(session, f"/read {file}\n/read {file}")
    request = editor.wait_for_request("fs/read_text_file")
    if how == "error":
        editor.answers["fs/read_text_file"] = lambda request: {"content": 5}
        error = {"code": -32603, "message": "no buffer"}
        editor.send({"jsonrpc": "2.0", "id": request["id"], "error": error})
    elif how == "nonsense":
        editor.answers["fs/read_text_file"] = lambda request: "what?"
        editor.reply(request, {"content": 5})
    assert editor.result(number)["stopReason"] == "end_turn"
    text = editor.text(session)
    assert text.count("on disk") == 2, text
    assert len(editor.requests("fs/read_text_file")) == (1 if how == "silence" else 2)


@pytest.mark.parametrize("end", ["close", "kill"])
def test_when_the_editor_ends_the_agent_goes_on_with_aghs_own_files(live: Live, file: Path, end: str) -> None:
    editor = Editor(live)
    editor.answers.pop("fs/read_text_file")
    session = editor.new()
    editor.start_prompt(session, f"/read {file}")
    editor.wait_for_request("fs/read_text_file")
    editor.kill() if end == "kill" else editor.close()
    session.wait_for_text(f"read {file}: on disk")
    session.wait_idle()


def test_a_keeper_that_dies_lends_again_with_the_next_prompt(live: Live, file: Path) -> None:
    editor = Editor(live)
    editor.buffers[str(file)] = "not saved"
    session = editor.new()
    assert "not saved" in said(editor, session, f"/read {file}")
    kill(session.keeper)
    wait_until(lambda: not session.is_live(), what="the end of the keeper")
    assert "not saved" in said(editor, session, f"/read {file}")


def test_a_command_runs_in_the_editors_terminal(live: Live) -> None:
    editor = Editor(live)
    session = editor.new()
    answer = said(editor, session, "/run echo $AGH_SESSION_ID; exit 3")
    assert answer == "run echo $AGH_SESSION_ID; exit 3: exit 3: from the editor"
    (process,) = editor.terminals.values()
    assert process.returncode == 3
    shown = [update for update in editor.updates(session, "tool_call_update") if update.get("content")]
    assert shown[0]["content"] == [{"type": "terminal", "terminalId": "editor-0"}]
    (result,) = session.events("tool_result")
    assert "from the editor" in str(result.content["tool_result"])
    assert len(editor.requests("terminal/release")) == 1
    other = Client(live)
    other.initialize()
    assert "from the editor" in str(other.load(session))


def test_without_an_editors_terminal_agh_runs_the_command(live: Live) -> None:
    editor = Editor(live, terminal=False)
    session = editor.new()
    assert said(editor, session, "/run echo $((6*7))") == "run echo $((6*7)): exit 0: 42\n"
    assert editor.terminals == {}


def test_an_editor_that_dies_with_its_terminal_ends_the_wait(live: Live) -> None:
    editor = Editor(live)
    editor.answers.pop("terminal/wait_for_exit")
    session = editor.new()
    editor.start_prompt(session, "/run exec sleep 60")
    editor.wait_for_request("terminal/wait_for_exit")
    editor.kill()
    for process in editor.terminals.values():
        process.kill()
        process.communicate(timeout=PATIENCE)
    session.wait_for_text("is gone")
    session.wait_idle()


def test_a_process_of_the_agent_in_the_editors_terminal_may_not_approve(live: Live) -> None:
    editor = Editor(live)
    session = editor.new()
    environ = f"AGH_HOME={live.home} PATH={os.environ['PATH']}"
    said(
        editor,
        session,
        f"/run {environ} {sys.executable} -P -m agh session set {session.id} permissions=deny-all",
    )
    (process,) = editor.terminals.values()
    assert process.returncode != 0
    assert "tried to change the permissions" in str(session.events("runtime_warning"))
    assert session.meta()["permissions"] == "approve-all"


def test_a_silent_editor_is_asked_again_when_it_answers(live: Live, file: Path) -> None:
    editor = Editor(live)
    editor.answers.pop("fs/read_text_file")
    session = editor.new()
    pause = 2  # seconds; longer than until the next try to lend
    assert said(editor, session, f"/read {file}\n/sleep {pause}\n/read {file}").count("on disk") == 2
    (request,) = editor.requests("fs/read_text_file")
    editor.answers["fs/read_text_file"] = lambda request: {"content": "not saved"}
    editor.reply(request, {"content": "late"})

    def reads_the_buffer() -> bool:  # an editor that answers again is asked again
        return session.say(f"/read {file}") == f"read {file}: not saved"

    wait_until(reads_the_buffer, what="the editor's buffer")


def test_an_answer_without_a_result_is_one(live: Live, file: Path) -> None:
    editor = Editor(live)
    editor.answers.pop("fs/write_text_file")
    session = editor.new()
    number = editor.start_prompt(session, f"/write {file} x")
    request = editor.wait_for_request("fs/write_text_file")
    editor.send({"jsonrpc": "2.0", "id": request["id"]})
    assert editor.result(number)["stopReason"] == "end_turn"
    assert file.read_text() == "on disk", "the editor has written it, and agh has not"


@pytest.mark.parametrize(
    ("answer", "sent"),
    [
        ({"result": {"content": "x" * 900}}, {"result": {"content": "x" * 900}}),
        ({"result": {"content": "x" * 2000}}, {"result": None}),
        ({"answer": {"result": "x" * 2000}}, {"answer": {"error": {"code": -32603}}}),
    ],
)
def test_an_answer_that_is_too_long_is_not_sent(
    live: Live, monkeypatch: pytest.MonkeyPatch, answer: Message, sent: Message
) -> None:
    """The keeper ends a connection on which too much comes, and with it all terminals that it lent."""
    monkeypatch.setattr(protocol, "MAX_MESSAGE", 1000)
    hands = Hands(home.Session.at(live.new().directory), Mock(), Mock(), None)
    ours, theirs = socket.socketpair()
    with ours, theirs, theirs.makefile("rb") as lines:
        hands._send(ours, {"number": 7, **answer})
        message = json.loads(lines.readline())
    assert message["number"] == 7
    if "answer" in sent and "error" in sent["answer"]:
        assert message["answer"]["error"]["code"] == sent["answer"]["error"]["code"]
    else:
        assert message["result"] == sent["result"]


def test_a_file_that_is_too_long_for_the_editor_is_read_from_the_disk(live: Live, file: Path) -> None:
    editor = Editor(live)
    editor.answers["fs/read_text_file"] = lambda request: None  # what replaces it, see above
    session = editor.new()
    text = said(editor, session, f"/read {file}\n/run echo hello")
    assert text == f"read {file}: on diskrun echo hello: exit 0: from the editor"


def test_a_terminal_that_comes_too_late_is_released(live: Live) -> None:
    editor = Editor(live)
    editor.answers.pop("terminal/create")
    session = editor.new()
    assert "whether the command was started is unknown" in said(editor, session, "/run echo hello")
    assert session.say("/run echo hello") == "run echo hello: exit 0: hello"
    editor.reply(editor.wait_for_request("terminal/create"), {"terminalId": "late"})
    assert editor.wait_for_request("terminal/release")["params"]["terminalId"] == "late"
