"""agh-echo as a real process: every frame it sends is checked against the official schema."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import agh_echo
import pytest
from agh_echo import options, script
from agh_echo.agent import STEPS
from agh_echo.plugin import agh_register_agents
from hypothesis import given
from hypothesis import strategies as st

from tests.support.sdk import load_model

PLUGIN = Path(agh_echo.__file__).parents[1]
LIMIT = 20.0

RESULTS: dict[str, str] = {
    "initialize": "InitializeResponse",
    "authenticate": "AuthenticateResponse",
    "session/new": "NewSessionResponse",
    "session/load": "LoadSessionResponse",
    "session/resume": "ResumeSessionResponse",
    "session/fork": "ForkSessionResponse",
    "session/list": "ListSessionsResponse",
    "session/close": "CloseSessionResponse",
    "session/delete": "DeleteSessionResponse",
    "session/prompt": "PromptResponse",
    "session/set_mode": "SetSessionModeResponse",
    "session/set_config_option": "SetSessionConfigOptionResponse",
}
REQUESTS: dict[str, str] = {
    "session/request_permission": "RequestPermissionRequest",
    "fs/read_text_file": "ReadTextFileRequest",
    "fs/write_text_file": "WriteTextFileRequest",
    "terminal/create": "CreateTerminalRequest",
    "terminal/wait_for_exit": "WaitForTerminalExitRequest",
    "terminal/output": "TerminalOutputRequest",
    "terminal/release": "ReleaseTerminalRequest",
    "elicitation/create": "CreateFormSessionElicitationRequest",
}

Frame = dict[str, Any]


def check(model: str, value: Any) -> None:
    """Valid, and with no field the schema does not know (the models ignore those)."""
    parsed = load_model(model).model_validate(value)
    assert parsed.model_dump(mode="json", by_alias=True, exclude_unset=True) == value


class AgentError(Exception):
    def __init__(self, error: Frame) -> None:
        super().__init__(error)
        self.code, self.message, self.data = error["code"], error["message"], error.get("data")


class Peer:
    """A client of one agent process. `answers` serve the agent's requests; updates pile up in `updates`."""

    def __init__(self, process: subprocess.Popen[bytes], cwd: Path, stderr: Path) -> None:
        self.process = process
        self.cwd = str(cwd)
        self.stderr = stderr
        self.updates: list[Frame] = []
        self.requests: list[Frame] = []
        self.answers: dict[str, Callable[[Frame], Any]] = {}
        self.methods: dict[Any, str] = {}
        self.replies: dict[Any, Frame] = {}
        self.session = ""
        self.partial = b""
        self.lines: list[bytes] = []

    def write(self, data: bytes) -> None:
        assert self.process.stdin
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def line(self, limit: float = LIMIT) -> bytes:
        """Return the next line of the agent's stdout; empty at its end."""
        assert self.process.stdout
        deadline = time.monotonic() + limit
        while not self.lines:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self.process.stdout], [], [], left)[0]:
                raise TimeoutError("the agent said nothing")
            data = os.read(self.process.stdout.fileno(), 1 << 20)
            if not data:
                return b""
            *lines, self.partial = (self.partial + data).split(b"\n")
            self.lines += lines
        return self.lines.pop(0)

    def read_all(self) -> bytes:
        """Return what is left on stdout, up to its end."""
        text = b""
        while line := self.line():
            text += line + b"\n"
        return text + self.partial

    def send(self, method: str, params: Any) -> int:
        request_id = len(self.methods) + 1
        self.methods[request_id] = method
        self.send_frame({"id": request_id, "method": method, "params": params})
        return request_id

    def notify(self, method: str, **params: Any) -> None:
        self.send_frame({"method": method, "params": params})

    def send_frame(self, frame: Frame) -> None:
        self.write(json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n")

    def take(self, limit: float = LIMIT) -> Frame:
        """Return the next frame, validated and filed; the agent's requests are answered."""
        line = self.line(limit)
        if not line:
            raise EOFError("the agent's stdout has ended")
        frame: Frame = json.loads(line)
        assert frame["jsonrpc"] == "2.0"
        if "method" not in frame:
            self._file_reply(frame)
        elif "id" in frame:
            check(REQUESTS[frame["method"]], frame["params"])
            self.requests.append(frame)
            answer = self.answers.get(frame["method"])
            if answer:
                self.send_frame({"id": frame["id"], **answer(frame["params"])})
        else:
            assert frame["method"] == "session/update"
            check("SessionNotification", frame["params"])
            self.updates.append(frame["params"]["update"])
        return frame

    def _file_reply(self, frame: Frame) -> None:
        method = self.methods.get(frame["id"], "")
        if "error" in frame:
            check("Error", frame["error"])
        elif frame["result"] is not None and method in RESULTS:
            check(RESULTS[method], frame["result"])
        self.replies[frame["id"]] = frame

    def reply(self, request_id: int) -> Any:
        while request_id not in self.replies:
            self.take()
        frame = self.replies.pop(request_id)
        if "error" in frame:
            raise AgentError(frame["error"])
        return frame["result"]

    def call(self, method: str, **params: Any) -> Any:
        return self.reply(self.send(method, params))

    def initialize(self) -> Frame:
        result: Frame = self.call("initialize", protocolVersion=1, clientCapabilities={})
        return result

    def new(self) -> Frame:
        self.initialize()
        result: Frame = self.call("session/new", cwd=self.cwd, mcpServers=[])
        self.session = result["sessionId"]
        return result

    def restore(self, how: str, session_id: str, **params: Any) -> Any:
        self.initialize()
        self.session = session_id
        return self.call(f"session/{how}", sessionId=session_id, cwd=self.cwd, **{"mcpServers": [], **params})

    def start(self, text: str) -> int:
        prompt = [{"type": "text", "text": text}]
        return self.send("session/prompt", {"sessionId": self.session, "prompt": prompt})

    def prompt(self, text: str) -> str:
        """Run a turn to its end_turn and return what the agent said."""
        del self.updates[:]
        assert self.reply(self.start(text))["stopReason"] == "end_turn"
        return self.text()

    def text(self, kind: str = "agent_message_chunk") -> str:
        return "".join(update["content"]["text"] for update in self.kind(kind))

    def kind(self, kind: str) -> list[Frame]:
        return [update for update in self.updates if update["sessionUpdate"] == kind]

    def wait_for(self, text: str) -> None:
        """Until the agent has said this."""
        while text not in self.text():
            self.take()

    def cancel(self) -> None:
        self.notify("session/cancel", sessionId=self.session)

    def close(self) -> int:
        """End of input; the exit code."""
        assert self.process.stdin
        self.process.stdin.close()
        return self.process.wait(LIMIT)


Start = Callable[..., Any]


@contextmanager
def running(root: Path, *words: str, **environment: str) -> Iterator[Peer]:
    """Start an agent with options; it is gone at the end of the block, whatever happened."""
    cwd = root / "work"
    cwd.mkdir(exist_ok=True)
    stderr = root / "stderr"
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("AGH_ECHO")}
    private = {"PYTHONPATH": str(PLUGIN), "AGH_ECHO_HOME": str(root / "state")}
    with stderr.open("wb") as sink:
        process = subprocess.Popen(
            [sys.executable, "-m", "agh_echo", *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=sink,
            cwd=root,
            env=inherited | private | environment,
            start_new_session=True,
        )
    try:
        yield Peer(process, cwd, stderr)
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.wait(LIMIT)
        for pipe in (process.stdin, process.stdout):
            assert pipe
            try:
                pipe.close()
            except BrokenPipeError:
                pass


@pytest.fixture
def start(tmp_path: Path) -> Start:
    return partial(running, tmp_path)


@pytest.fixture
def lone_peer(start: Start) -> Iterator[Peer]:
    """Yield a plain agent with a new session, which must end by itself when its input ends."""
    with start() as peer:
        peer.new()
        yield peer
        assert peer.close() == 0


@pytest.fixture(scope="module")
def module_peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    with running(tmp_path_factory.mktemp("peer")) as peer:
        yield peer
        assert peer.close() == 0


@pytest.fixture
def peer(module_peer: Peer) -> Peer:
    """Return a plain agent with a new session, in a process for all tests that read their turns to the end.

    It must end by itself when its input ends.
    """
    module_peer.answers.clear()
    module_peer.new()
    for frames in (module_peer.updates, module_peer.requests):
        frames.clear()
    return module_peer


@pytest.fixture(scope="module")
def stored_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a session that a former process has stored."""
    root = tmp_path_factory.mktemp("stored")
    with running(root) as peer:
        peer.new()
        peer.prompt("first words")
        peer.prompt("/say second\n/tool grep kind=search found")
        assert peer.close() == 0
    return root


@pytest.fixture
def stored(stored_root: Path, tmp_path: Path) -> str:
    """Return the id of a session that a former process has stored: two texts and a tool call."""
    shutil.copytree(stored_root / "state", tmp_path / "state")
    (file,) = (tmp_path / "state").iterdir()
    file.write_text(file.read_text().replace(str(stored_root), str(tmp_path)))
    return file.stem


class TestHandshake:
    def test_advertises_everything_by_default(self, peer: Peer) -> None:
        result = peer.initialize()
        assert result["protocolVersion"] == 1
        assert result["agentInfo"]["name"] == "agh-echo"
        capabilities = result["agentCapabilities"]
        assert capabilities["loadSession"]
        assert capabilities["promptCapabilities"] == {"image": True, "audio": False, "embeddedContext": True}
        assert set(capabilities["sessionCapabilities"]) == {
            "resume",
            "list",
            "fork",
            "close",
            "delete",
            "additionalDirectories",
        }
        assert result["authMethods"] == []

    def test_serves_only_what_it_advertises(self, start: Start) -> None:
        with start("--caps", "list") as peer:
            peer.new()
            for method in ("load", "resume", "fork", "close", "delete"):
                with pytest.raises(AgentError) as refused:
                    peer.call(f"session/{method}", sessionId=peer.session, cwd=peer.cwd, mcpServers=[])
                assert refused.value.code == -32601
            assert len(peer.call("session/list")["sessions"]) == 1

    def test_new_session_offers_modes_and_models(self, peer: Peer) -> None:
        result = peer.new()
        assert [mode["id"] for mode in result["modes"]["availableModes"]] == ["ask", "code"]
        (option,) = result["configOptions"]
        assert (option["id"], option["category"], option["currentValue"]) == ("model", "model", "small")

    def test_log_in_is_demanded_until_it_is_done(self, start: Start) -> None:
        with start("--auth-required") as peer:
            (method,) = peer.initialize()["authMethods"]
            with pytest.raises(AgentError) as refused:
                peer.call("session/new", cwd=peer.cwd, mcpServers=[])
            assert refused.value.code == -32000
            with pytest.raises(AgentError, match="no auth method"):
                peer.call("authenticate", methodId="other")
            peer.call("authenticate", methodId=method["id"])
            assert peer.call("session/new", cwd=peer.cwd, mcpServers=[])["sessionId"]

    def test_slow_initialize_does_not_hold_up_others(self, start: Start) -> None:
        with start("--init-delay", "0.3") as peer:
            began = time.monotonic()
            first = peer.send("initialize", {"protocolVersion": 1})
            assert peer.call("session/list") == {"sessions": []}
            assert first not in peer.replies
            peer.reply(first)
            assert time.monotonic() - began >= 0.3

    def test_initialize_may_hang(self, start: Start) -> None:
        with start("--init-hang") as peer:
            first = peer.send("initialize", {"protocolVersion": 1})
            peer.call("session/list")
            assert first not in peer.replies
            assert peer.close() == 0

    def test_chatter(self, start: Start) -> None:
        with start("--chatter") as peer:
            assert b"not JSON" in peer.line()
            peer.initialize()
            assert b"stderr" in peer.stderr.read_bytes()

    @pytest.mark.parametrize(
        ("line", "code"),
        [(b"{oops", -32700), (b"[" * 200_000, -32700), (b"\xff", -32700), (b"[]", -32600), (b"42", -32600)],
        ids=["torn", "deep", "not utf-8", "array", "number"],
    )
    def test_bad_lines_are_answered(self, peer: Peer, line: bytes, code: int) -> None:
        peer.write(line + b"\n\n")
        assert peer.take()["error"]["code"] == code
        peer.initialize()

    @pytest.mark.parametrize(
        ("method", "params", "code"),
        [
            ("nope", {}, -32601),
            ("session/nope", {}, -32601),
            ("session/new", {"cwd": "/"}, -32602),
            ("session/new", {"cwd": "relative", "mcpServers": []}, -32602),
            ("session/new", [], -32602),
            ("session/prompt", {"sessionId": "unknown", "prompt": []}, -32002),
            ("session/load", {"sessionId": "../../etc/passwd", "cwd": "/", "mcpServers": []}, -32002),
        ],
    )
    def test_bad_requests_are_refused(self, peer: Peer, method: str, params: Any, code: int) -> None:
        with pytest.raises(AgentError) as refused:
            peer.reply(peer.send(method, params))
        assert refused.value.code == code

    def test_strange_notifications_and_replies_are_ignored(self, peer: Peer) -> None:
        peer.send_frame({"method": "session/cancel", "params": [1]})
        peer.send_frame({"method": "session/cancel", "params": {"sessionId": ["x"]}})
        peer.send_frame({"method": "_x/y"})
        peer.send_frame({"id": "echo-99", "result": None})
        peer.send_frame({"id": None, "error": "x"})
        assert peer.prompt("still here") == "echo: still here"


class TestOptions:
    def test_environment_then_command_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AGH_ECHO_OPTIONS", "--caps none --on-load 'not-found' --deaf")
        parsed = options.parse(options.words(["--on-load=ok", "--slow", "0.5"]))
        assert (parsed.caps, parsed.on_load, parsed.deaf, parsed.slow) == ((), "ok", True, 0.5)

    @pytest.mark.parametrize("words", [["--what"], ["load"], ["--caps", "x"], ["--slow", "x"], ["--on-load"]])
    def test_bad_options_exit_2(self, start: Start, words: list[str]) -> None:
        with start(*words) as peer:
            assert peer.process.wait(LIMIT) == 2
            assert b"agh-echo --help" in peer.stderr.read_bytes()

    def test_help(self, start: Start) -> None:
        with start("--help") as peer:
            assert peer.process.wait(LIMIT) == 0
            printed = peer.process.stdout.read().decode()
        assert not [name for name in FLAGS if f"{name} " not in printed]

    def test_state_directory(self, start: Start, tmp_path: Path) -> None:
        with start("--state", str(tmp_path / "other")) as peer:
            peer.new()
        assert (tmp_path / "other" / f"{peer.session}.jsonl").exists()

    def test_default_state_directory(self, start: Start, tmp_path: Path) -> None:
        with start(AGH_ECHO_HOME="", XDG_STATE_HOME=str(tmp_path / "xdg")) as peer:
            peer.new()
        assert (tmp_path / "xdg" / "agh-echo" / f"{peer.session}.jsonl").exists()


class TestTalk:
    def test_echo_streams_in_chunks(self, peer: Peer) -> None:
        assert peer.prompt("hello there  you\nand you") == "echo: hello there  you\nand you"
        chunks = peer.kind("agent_message_chunk")
        assert 3 <= len(chunks) <= 8
        assert len({chunk["messageId"] for chunk in chunks}) == 1

    def test_usage_of_turn_and_session(self, peer: Peer) -> None:
        peer.prompt("one")
        first = peer.kind("usage_update")[-1]["used"]
        result = peer.reply(peer.start("two"))
        assert result["usage"]["totalTokens"] > 0
        assert peer.kind("usage_update")[-1]["used"] == first + result["usage"]["totalTokens"]

    def test_usage_as_told(self, peer: Peer) -> None:
        result = peer.reply(peer.start("/usage 10 5 0.25"))
        assert result["usage"] == {"inputTokens": 10, "outputTokens": 5, "totalTokens": 15}
        peer.reply(peer.start("/usage 1 1 0.5"))
        last = peer.kind("usage_update")[-1]
        assert (last["used"], last["cost"]) == (17, {"amount": 0.75, "currency": "USD"})

    def test_no_usage(self, start: Start) -> None:
        with start("--no-usage") as peer:
            peer.new()
            assert peer.reply(peer.start("hello")) == {"stopReason": "end_turn"}
            assert not peer.kind("usage_update")

    def test_recall(self, peer: Peer) -> None:
        peer.prompt("one")
        peer.prompt("x" * 5000)
        result = peer.prompt("What did I say?")
        assert result == f'SEEN 3 user texts: "one" | "{"x" * 4000}" | "What did I say?"'
        assert peer.prompt("/recall").startswith('SEEN 4 user texts: "one" | ')

    def test_lone_surrogates_and_unicode_survive(self, lone_peer: Peer) -> None:
        assert lone_peer.prompt("naïve 日本") == "echo: naïve 日本"
        turn = lone_peer.start("\ud800")  # the schema's own string type refuses it, so no validation here
        heard = [json.loads(lone_peer.line()) for _ in range(4)]
        assert [frame["params"]["update"]["content"]["text"] for frame in heard[:2]] == ["echo: ", "\ud800"]
        assert heard[-1]["id"] == turn

    def test_steps_run_in_order_with_text_between(self, peer: Peer) -> None:
        assert peer.prompt("/say a\nb\nc\r\n/say d\r\n/usr/bin") == "a\necho: b\nc\nd\necho: /usr/bin"

    def test_other_content_is_named(self, peer: Peer) -> None:
        blocks = [
            {"type": "text", "text": "see"},
            {"type": "image", "data": "AA==", "mimeType": "image/png"},
            {"type": "resource", "resource": {"uri": "file:///a", "text": "/crash"}},
            {"type": "resource_link", "uri": "file:///b", "name": "b"},
        ]
        peer.call("session/prompt", sessionId=peer.session, prompt=blocks)
        assert peer.text() == "echo: see\n[image image/png]\n[resource file:///a]\n[resource_link file:///b]"

    def test_injected_history_is_not_run(self, peer: Peer) -> None:
        text = (
            "RESUME CONTEXT FOR CONTINUING TASK\n=== EXECUTION HISTORY ===\n[USER]: x\n/crash\n"
            "=== CURRENT REQUEST ===\nwhat did I say?\n\n=== INSTRUCTIONS ===\nGo on.\n/crash"
        )
        assert peer.prompt(text) == f'SEEN 1 user texts: "{text}"'

    def test_stream(self, peer: Peer) -> None:
        peer.prompt("/stream 3 0 12")
        chunks = [update["content"]["text"] for update in peer.kind("agent_message_chunk")]
        assert chunks == ["chunk 1 ....", "chunk 2 ....", "chunk 3 ...."]
        peer.prompt("/stream 2000")
        chunks = [update["content"]["text"] for update in peer.kind("agent_message_chunk")]
        assert chunks == [f"chunk {number} " for number in range(1, 2001)]

    def test_slow(self, start: Start) -> None:
        with start("--slow", "0.05") as peer:
            peer.new()
            began = time.monotonic()
            peer.prompt("/stream 4")
            assert time.monotonic() - began >= 0.2

    def test_small_updates(self, peer: Peer) -> None:
        text = "/think deep thoughts\n/plan a; b;c\n/title A title\n/commands\n/mode code\n/settings"
        assert peer.prompt(text) == "mode=code model=small mcp="
        assert peer.text("agent_thought_chunk") == "deep thoughts"
        (plan,) = peer.kind("plan")
        assert [entry["content"] for entry in plan["entries"]] == ["a", "b", "c"]
        assert peer.kind("session_info_update")[0]["title"] == "A title"
        (commands,) = peer.kind("available_commands_update")
        assert {command["name"] for command in commands["availableCommands"]} == set(STEPS)
        assert peer.kind("current_mode_update")[0]["currentModeId"] == "code"

    def test_facts(self, start: Start, tmp_path: Path) -> None:
        with start(MARK="here") as peer:
            peer.new()
            pid, cwd, *variables = peer.prompt("/pid\n/cwd\n/env MARK\n/env NOT_THERE").split("\n")
            assert pid == f"pid: {peer.process.pid}"
            assert cwd == f"cwd: {peer.cwd} (process: {tmp_path})"
            assert variables == ["MARK=here", "NOT_THERE is not set"]

    def test_repeat(self, peer: Peer) -> None:
        assert peer.prompt("/repeat 2 /repeat 2 /say x\n/repeat 2 y") == "x\nx\nx\nx\necho: y\necho: y"

    @pytest.mark.parametrize(
        "text", ["/nope", "/say a\n/nope", "/stream x", "/sleep", "/tool", "/usage 1", "/repeat 2 /nope"]
    )
    def test_bad_steps_fail_the_prompt(self, peer: Peer, text: str) -> None:
        with pytest.raises(AgentError) as refused:
            peer.prompt(text)
        assert refused.value.code == -32602
        assert not peer.text()
        assert peer.prompt("go on") == "echo: go on"


class TestTools:
    def test_tool_call_runs_through_its_states(self, peer: Peer) -> None:
        peer.prompt("/say a\n/tool grep kind=search path=src pattern=x=1 found 3\n/say b")
        (call,) = peer.kind("tool_call")
        assert (call["title"], call["kind"], call["status"]) == ("grep", "search", "pending")
        assert call["locations"] == [{"path": f"{peer.cwd}/src"}]
        assert call["rawInput"] == {"path": f"{peer.cwd}/src", "pattern": "x=1"}
        running, done = peer.kind("tool_call_update")
        assert running["status"] == "in_progress"
        assert done["status"] == "completed"
        assert done["content"] == [{"type": "content", "content": {"type": "text", "text": "found 3"}}]
        assert len({update["messageId"] for update in peer.kind("agent_message_chunk")}) == 2

    def test_tools_that_fail_or_stay_open(self, peer: Peer) -> None:
        peer.prompt("/tool-fail a id=one\n/tool-open b id=two")
        ends = {update["toolCallId"]: update["status"] for update in peer.kind("tool_call_update")}
        assert ends == {"one": "failed", "two": "in_progress"}

    def test_edit_shows_a_diff(self, peer: Peer) -> None:
        Path(peer.cwd, "old.txt").write_text("before")
        peer.prompt("/edit old.txt a\\nb\n/edit new.txt c")
        first, second = (update["content"][0] for update in peer.kind("tool_call_update"))
        assert (first["oldText"], first["newText"]) == ("before", "a\nb")
        assert (second["oldText"], second["path"]) == (None, f"{peer.cwd}/new.txt")
        assert Path(peer.cwd, "old.txt").read_text() == "before"


class TestAskTheClient:
    @pytest.mark.parametrize("kind", ["allow_once", "allow_always", "reject_once", "reject_always"])
    def test_permission(self, peer: Peer, kind: str) -> None:
        def answer(params: Frame) -> Frame:
            chosen = next(option["optionId"] for option in params["options"] if option["kind"] == kind)
            return {"result": {"outcome": {"outcome": "selected", "optionId": chosen}}}

        peer.answers["session/request_permission"] = answer
        assert peer.prompt("/ask kind=execute command=ls Run it?") == f"permission: {kind}"
        (request,) = peer.requests
        assert request["params"]["toolCall"]["title"] == "Run it?"
        assert request["params"]["toolCall"]["kind"] == "execute"
        ended = "completed" if kind.startswith("allow") else "failed"
        assert peer.kind("tool_call_update")[-1]["status"] == ended

    @pytest.mark.parametrize(
        ("answer", "said"),
        [
            ({"result": {"outcome": {"outcome": "cancelled"}}}, "permission: cancelled"),
            (
                {"result": {"outcome": {"outcome": "selected", "optionId": "x"}}},
                "permission: unknown option x",
            ),
            ({"error": {"code": -32601, "message": "no"}}, "permission: error -32601 no"),
        ],
    )
    def test_permission_not_given(self, peer: Peer, answer: Frame, said: str) -> None:
        peer.answers["session/request_permission"] = lambda params: answer
        assert peer.prompt("/ask-reject-only") == said
        kinds = [option["kind"] for option in peer.requests[0]["params"]["options"]]
        assert kinds == ["reject_once", "reject_always"]

    def test_a_useless_answer_fails_the_prompt(self, peer: Peer) -> None:
        peer.answers["session/request_permission"] = lambda params: {"result": None}
        with pytest.raises(AgentError):
            peer.prompt("/ask")
        assert peer.prompt("go on") == "echo: go on"

    def test_files(self, peer: Peer) -> None:
        files: dict[str, str] = {}

        def write(params: Frame) -> Frame:
            files[params["path"]] = params["content"]
            return {"result": {}}

        def read(params: Frame) -> Frame:
            if params["path"] in files:
                return {"result": {"content": files[params["path"]]}}
            return {"error": {"code": -32002, "message": "no such file"}}

        peer.answers |= {"fs/write_text_file": write, "fs/read_text_file": read}
        result = peer.prompt("/write a.txt one\\ntwo\n/read a.txt\n/read /b")
        assert result == "write a.txt: ok\nread a.txt: one\ntwo\nread /b: error -32002 no such file"
        assert list(files) == [f"{peer.cwd}/a.txt"]

    def test_terminal(self, peer: Peer) -> None:
        peer.answers |= {
            "terminal/create": lambda params: {"result": {"terminalId": "t1"}},
            "terminal/wait_for_exit": lambda params: {"result": {"exitCode": 3}},
            "terminal/output": lambda params: {"result": {"output": "oops", "truncated": False}},
            "terminal/release": lambda params: {"result": {}},
        }
        assert peer.prompt("/run false || exit 3") == "run false || exit 3: exit 3: oops"
        assert peer.requests[0]["params"]["args"] == ["-c", "false || exit 3"]
        asked = [request["method"].split("/")[1] for request in peer.requests]
        assert asked == ["create", "wait_for_exit", "output", "release"]
        peer.answers["terminal/create"] = lambda params: {
            "error": {"code": -32601, "message": "no terminals"}
        }
        assert peer.prompt("/run ls") == "run ls: error -32601 no terminals"

    def test_cancel_releases_the_terminal(self, peer: Peer) -> None:
        peer.answers["terminal/create"] = lambda params: {"result": {"terminalId": "t1"}}
        turn = peer.start("/run sleep 100")
        while not peer.requests or peer.requests[-1]["method"] != "terminal/wait_for_exit":
            peer.take()
        peer.cancel()
        assert peer.reply(turn)["stopReason"] == "cancelled"
        assert peer.requests[-1]["method"] == "terminal/release"

    def test_elicitation(self, peer: Peer) -> None:
        accepted = {"result": {"action": "accept", "content": {"answer": "42"}}}
        peer.answers["elicitation/create"] = lambda params: accepted
        assert peer.prompt("/elicit") == 'elicit: accept {"answer": "42"}'
        peer.answers["elicitation/create"] = lambda params: {"result": {"action": "decline"}}
        assert peer.prompt("/elicit Why?") == "elicit: decline {}"


class TestTurns:
    @pytest.mark.parametrize(
        "text", ["/sleep 1000", "/stream 100000 0.001", "/stream 9999999", "/ask", "/repeat 9999999 /say x"]
    )
    def test_cancel(self, peer: Peer, text: str) -> None:
        turn = peer.start(f"/say begun\n{text}")
        peer.wait_for("begun")
        peer.cancel()
        assert peer.reply(turn)["stopReason"] == "cancelled"
        assert 'SEEN 2 user texts: "/say begun' in peer.prompt("/recall")

    def test_cancel_by_request_id(self, peer: Peer) -> None:
        turn = peer.start("/say begun\n/sleep 1000")
        peer.wait_for("begun")
        peer.notify("$/cancel_request", requestId=turn)
        assert peer.reply(turn)["stopReason"] == "cancelled"

    def test_cancel_sent_with_the_prompt(self, peer: Peer) -> None:
        turn = peer.start("hello")
        peer.cancel()
        assert peer.reply(turn)["stopReason"] in ("cancelled", "end_turn")
        peer.cancel()
        assert peer.prompt("next") == "echo: next"

    def test_ignored_cancel(self, peer: Peer) -> None:
        def cancel_first(params: Frame) -> Frame:
            peer.cancel()
            return {"result": {"action": "cancel"}}

        peer.answers["elicitation/create"] = cancel_first
        assert peer.prompt("/ignore-cancel\n/elicit\n/say done") == "elicit: cancel {}\ndone"

    def test_other_requests_are_served_in_a_turn(self, peer: Peer) -> None:
        turn = peer.start("/say begun\n/sleep 1000")
        peer.wait_for("begun")
        first = peer.session
        with pytest.raises(AgentError, match="is running"):
            peer.prompt("me too")
        with pytest.raises(AgentError, match="is running"):
            peer.call("session/load", sessionId=first, cwd=peer.cwd, mcpServers=[])
        peer.session = peer.call("session/new", cwd=peer.cwd, mcpServers=[])["sessionId"]
        assert peer.prompt("another session") == "echo: another session"
        peer.notify("session/cancel", sessionId=first)
        assert peer.reply(turn)["stopReason"] == "cancelled"

    def test_end_of_input_ends_a_running_turn(self, start: Start) -> None:
        with start() as peer:
            peer.new()
            peer.start("/say begun\n/sleep 1000")
            peer.wait_for("begun")
            assert peer.close() == 0
        with start() as again:
            again.restore("load", peer.session)
            assert again.text() == "begun"

    @pytest.mark.parametrize(
        ("text", "reason"),
        [("/empty\n/say no", "end_turn"), ("/refuse", "refusal"), ("/stop max_tokens", "max_tokens")],
    )
    def test_stop_reasons(self, peer: Peer, text: str, reason: str) -> None:
        assert peer.reply(peer.start(text))["stopReason"] == reason
        assert not peer.text()

    @pytest.mark.parametrize(
        ("text", "code", "message"),
        [
            ("/error", -32603, "Internal error: as asked by /error"),
            ("/error -32000 log in first", -32000, "log in first"),
            ("/error out of tokens", -32603, "out of tokens"),
        ],
    )
    def test_errors(self, peer: Peer, text: str, code: int, message: str) -> None:
        with pytest.raises(AgentError) as failed:
            peer.prompt(text)
        assert (failed.value.code, failed.value.message) == (code, message)

    def test_late_chunks(self, peer: Peer) -> None:
        assert peer.prompt("/late 2 0.05\n/say now") == "now"
        peer.wait_for("late 1 late 2 ")


class TestMischief:
    def test_exit(self, start: Start) -> None:
        with start() as peer:
            peer.new()
            peer.start("/say bye\n/exit 7")
            peer.wait_for("bye")
            assert peer.process.wait(LIMIT) == 7
            assert peer.read_all() == b""

    def test_crash(self, start: Start) -> None:
        with start() as peer:
            peer.new()
            peer.start("/say bye\n/crash")
            peer.wait_for("bye")
            assert peer.process.wait(LIMIT) == -signal.SIGKILL

    def test_hang_hears_nothing(self, start: Start) -> None:
        with start() as peer:
            peer.new()
            peer.start("/say bye\n/hang")
            peer.wait_for("bye")
            peer.cancel()
            with pytest.raises(TimeoutError):
                peer.take(0.2)
            peer.process.stdin.close()
            with pytest.raises(subprocess.TimeoutExpired):
                peer.process.wait(0.2)

    def test_close_stdout(self, start: Start) -> None:
        with start() as peer:
            peer.new()
            peer.start("/say bye\n/close-stdout\n/say unheard")
            peer.wait_for("bye")
            assert peer.read_all() == b""
            assert peer.process.poll() is None
            assert peer.close() == 0

    def test_stderr(self, lone_peer: Peer) -> None:
        lone_peer.prompt("/stderr look here\n/stderr-flood 2")
        noise = lone_peer.stderr.read_bytes()
        assert noise.startswith(b"look here\n")
        assert len(noise) == (2 << 20) + len("look here\n")

    def test_raw_lines_and_bytes(self, lone_peer: Peer) -> None:
        lone_peer.start("/raw {not json\n/bytes ff 0a")
        assert [lone_peer.line(), lone_peer.line()] == [b"{not json", b"\xff"]

    def test_no_newline(self, lone_peer: Peer) -> None:
        lone_peer.start("/no-newline 3")
        assert lone_peer.line().startswith(b"x" * (3 << 20) + b'{"jsonrpc"')

    def test_long_line(self, peer: Peer) -> None:
        assert len(peer.prompt("/long-line 3")) == 3 << 20

    def test_unknown_updates_and_extensions(self, lone_peer: Peer) -> None:
        lone_peer.start("/unknown surprise\n/ext _echo/hello")
        assert json.loads(lone_peer.line())["params"]["update"]["sessionUpdate"] == "surprise"
        assert json.loads(lone_peer.line())["method"] == "_echo/hello"

    @pytest.mark.parametrize("how", ["", " keep-stdout"])
    def test_spawned_child_outlives_the_agent(self, start: Start, how: str) -> None:
        with start() as peer:
            peer.new()
            child = int(peer.prompt(f"/spawn-setsid 1000{how}").removeprefix("spawned: "))
            try:
                assert os.getsid(child) == child
                assert peer.close() == 0
                os.kill(child, 0)
                if how:
                    with pytest.raises(TimeoutError):
                        peer.line(0.2)
                else:
                    assert peer.read_all() == b""
            finally:
                os.kill(child, signal.SIGKILL)

    def test_deaf(self, start: Start) -> None:
        with start("--deaf") as peer:
            peer.new()
            peer.process.terminate()
            assert peer.prompt("still here") == "echo: still here"
            peer.process.stdin.close()
            with pytest.raises(subprocess.TimeoutExpired):
                peer.process.wait(0.2)

    def test_wrapper(self, start: Start) -> None:
        with start("--no-usage", AGH_ECHO_OPTIONS="--wrapper") as peer:
            peer.new()
            assert peer.prompt("/pid") != f"pid: {peer.process.pid}"
            peer.process.terminate()
            assert peer.process.wait(LIMIT) == -signal.SIGTERM
            assert peer.prompt("the child lives") == "echo: the child lives"
            peer.process.stdin.close()
            assert peer.read_all() == b""

    def test_wrapper_passes_the_exit_code_on(self, start: Start) -> None:
        with start("--wrapper") as peer:
            peer.new()
            peer.start("/exit 5")
            assert peer.process.wait(LIMIT) == 5

    def test_gone_client_ends_the_agent(self, start: Start) -> None:
        with start() as peer:
            peer.new()
            peer.process.stdout.close()
            peer.start("/stream 100000")
            assert peer.process.wait(LIMIT) == 0


class TestSettings:
    def test_mode_and_model(self, peer: Peer) -> None:
        assert peer.call("session/set_mode", sessionId=peer.session, modeId="code") == {}
        result = peer.call(
            "session/set_config_option", sessionId=peer.session, configId="model", value="large"
        )
        assert result["configOptions"][0]["currentValue"] == "large"
        assert peer.prompt("/settings") == "mode=code model=large mcp="
        peer.call("session/set_model", sessionId=peer.session, modelId="small")
        assert peer.prompt("/settings") == "mode=code model=small mcp="

    @pytest.mark.parametrize(
        ("method", "params"),
        [
            ("set_mode", {"modeId": "x"}),
            ("set_model", {"modelId": "x"}),
            ("set_config_option", {"configId": "model", "value": "x"}),
            ("set_config_option", {"configId": "model", "value": True, "type": "boolean"}),
            ("set_config_option", {"configId": "x", "value": "small"}),
        ],
    )
    def test_unknown_values(self, peer: Peer, method: str, params: Frame) -> None:
        with pytest.raises(AgentError) as refused:
            peer.call(f"session/{method}", sessionId=peer.session, **params)
        assert refused.value.code == -32602

    def test_restored_session_starts_with_the_defaults(self, start: Start, stored: str) -> None:
        with start() as peer:
            server = {"name": "files", "command": "/bin/x", "args": [], "env": []}
            peer.restore("load", stored, mcpServers=[server])
            assert peer.prompt("/settings") == "mode=ask model=small mcp=files"


class TestStoredSessions:
    def test_files_are_private(self, start: Start, tmp_path: Path) -> None:
        with start() as peer:
            peer.new()
            peer.prompt("secret")
        file = tmp_path / "state" / f"{peer.session}.jsonl"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700

    def test_load_replays(self, start: Start, stored: str) -> None:
        with start() as peer:
            peer.restore("load", stored)
            kinds = [update["sessionUpdate"].removesuffix("_chunk") for update in peer.updates]
            assert kinds == ["user_message", "agent_message", "user_message", "agent_message", "tool_call"]
            assert peer.updates[0]["content"]["text"] == "first words"
            assert peer.updates[1]["content"]["text"] == "echo: first words"
            assert (peer.updates[4]["title"], peer.updates[4]["status"]) == ("grep", "completed")
            assert peer.prompt("/recall").startswith('SEEN 3 user texts: "first words" | "/say second')

    def test_resume_does_not_replay(self, start: Start, stored: str) -> None:
        with start() as peer:
            assert peer.restore("resume", stored)["modes"]["currentModeId"] == "ask"
            assert not peer.updates
            assert peer.prompt("/recall").startswith("SEEN 3 user texts")
            used = peer.kind("usage_update")[-1]["used"]
        with start() as peer:
            peer.restore("resume", stored)
            peer.prompt("/usage 1 1")
            assert peer.kind("usage_update")[-1]["used"] == used + 2

    def test_killed_prompt_is_in_the_history(self, start: Start) -> None:
        with start() as peer:
            peer.new()
            peer.start("/say half\n/sleep 1000")
            peer.wait_for("half")
            peer.process.kill()
            peer.process.wait(LIMIT)
        with start() as again:
            again.restore("load", peer.session)
            assert again.text("user_message_chunk") == "/say half\n/sleep 1000"
            assert again.text() == ""

    def test_torn_record_costs_only_itself(self, start: Start, stored: str, tmp_path: Path) -> None:
        with (tmp_path / "state" / f"{stored}.jsonl").open("ab") as file:
            file.write(b'\n{"user": "to')
        with start() as peer:
            peer.restore("resume", stored)
            peer.prompt("third")
        with start() as peer:
            peer.restore("resume", stored)
            assert peer.prompt("/recall").endswith('found" | "third" | "/recall"')

    def test_fork(self, start: Start, stored: str) -> None:
        with start() as peer:
            peer.initialize()
            peer.session = peer.call("session/fork", sessionId=stored, cwd=peer.cwd)["sessionId"]
            assert peer.session != stored
            assert peer.prompt("/recall").startswith("SEEN 3 user texts")
        for session_id, count in ((stored, 3), (peer.session, 4)):
            with start() as again:
                again.restore("resume", session_id)
                assert again.prompt("/recall").startswith(f"SEEN {count} user texts")

    def test_list(self, start: Start, stored: str) -> None:
        with start() as peer:
            peer.new()
            untitled = {info["sessionId"]: info for info in peer.call("session/list")["sessions"]}
            assert "title" not in untitled[peer.session]
            peer.prompt("/title Named")
            infos = {info["sessionId"]: info for info in peer.call("session/list")["sessions"]}
            assert infos[stored]["title"] == "first words"
            assert infos[peer.session]["title"] == "Named"
            assert infos[stored]["cwd"] == peer.cwd
            assert peer.call("session/list", cwd="/elsewhere") == {"sessions": []}

    def test_close(self, peer: Peer) -> None:
        turn = peer.start("/say begun\n/sleep 1000")
        peer.wait_for("begun")
        peer.call("session/close", sessionId=peer.session)
        assert peer.reply(turn)["stopReason"] == "cancelled"
        with pytest.raises(AgentError, match="not found"):
            peer.prompt("closed")
        peer.call("session/load", sessionId=peer.session, cwd=peer.cwd, mcpServers=[])
        assert peer.prompt("open again") == "echo: open again"

    def test_delete(self, start: Start, stored: str, tmp_path: Path) -> None:
        with start() as peer:
            peer.restore("load", stored)
            turn = peer.start("/ignore-cancel\n/say begun\n/sleep 0.1")
            peer.wait_for("begun")
            peer.call("session/delete", sessionId=stored)
            assert peer.reply(turn)["stopReason"] == "end_turn"
            assert not list((tmp_path / "state").iterdir())
            assert peer.call("session/list") == {"sessions": []}
            for session_id in (stored, "unknown", "../../etc/passwd"):
                assert peer.call("session/delete", sessionId=session_id) == {}


@pytest.mark.parametrize("how", ["load", "resume"])
class TestOutcomes:
    @pytest.mark.parametrize(
        ("outcome", "code", "message", "is_listed"),
        [
            ("not-found", -32002, "Resource not found: {id}", True),
            ("not-found-text", -32603, "Internal error", True),
            ("method-not-found", -32601, "Method not found", True),
            ("unclear", -32603, "Internal error: service failure", True),
            ("unclear-listed", -32603, "Internal error: service failure", True),
            ("unclear-missing", -32603, "Internal error: service failure", False),
            ("error", -32603, "Internal error: database is locked", True),
        ],
    )
    def test_failures(
        self, start: Start, stored: str, how: str, outcome: str, code: int, message: str, is_listed: bool
    ) -> None:
        with start(f"--on-{how}", outcome) as peer:
            with pytest.raises(AgentError) as failed:
                peer.restore(how, stored)
            assert (failed.value.code, failed.value.message) == (code, message.format(id=stored))
            if outcome == "not-found-text":
                assert failed.value.data == {"details": f"Session not found: {stored}"}
            new = peer.call("session/new", cwd=peer.cwd, mcpServers=[])["sessionId"]
            listed = {info["sessionId"] for info in peer.call("session/list")["sessions"]}
            assert listed == ({stored, new} if is_listed else {new})

    def test_null(self, start: Start, stored: str, how: str) -> None:
        with start(f"--on-{how}", "null") as peer:
            assert peer.restore(how, stored) is None
            assert bool(peer.updates) == (how == "load")
            assert peer.prompt("/recall").startswith("SEEN 3 user texts")

    @pytest.mark.parametrize("is_known", [True, False])
    def test_empty(self, start: Start, stored: str, how: str, is_known: bool) -> None:
        with start(f"--on-{how}", "empty") as peer:
            assert peer.restore(how, stored if is_known else "../any")["modes"]
            assert not peer.updates
            assert peer.prompt("/recall") == 'SEEN 1 user texts: "/recall"'

    def test_late(self, start: Start, stored: str, how: str) -> None:
        with start(f"--on-{how}", "late") as peer:
            began = time.monotonic()
            assert peer.restore(how, stored)["modes"]
            assert not peer.updates
            while len(peer.updates) < 5:
                peer.take()
            assert time.monotonic() - began >= 0.1
            assert peer.prompt("/recall").startswith("SEEN 3 user texts")

    def test_die(self, start: Start, stored: str, how: str) -> None:
        with start(f"--on-{how}", "die") as peer:
            with pytest.raises(EOFError):
                peer.restore(how, stored)
            assert peer.process.wait(LIMIT) == 1

    def test_hang(self, start: Start, stored: str, how: str) -> None:
        with start(f"--on-{how}", "hang") as peer:
            peer.initialize()
            request = peer.send(f"session/{how}", {"sessionId": stored, "cwd": peer.cwd, "mcpServers": []})
            peer.call("session/list")
            assert request not in peer.replies
            peer.notify("$/cancel_request", requestId=request)
            with pytest.raises(AgentError) as cancelled:
                peer.reply(request)
            assert cancelled.value.code == -32800

    def test_unknown_id(self, peer: Peer, how: str) -> None:
        with pytest.raises(AgentError) as failed:
            peer.restore(how, "00000000-0000-4000-8000-000000000000")
        assert failed.value.code == -32002


class TestScript:
    @given(st.text())
    def test_chunks_join_to_the_text(self, text: str) -> None:
        chunks = script.chunks(text)
        assert "".join(chunks) == text
        assert len(chunks) <= 8
        assert all(chunks)

    @given(st.text(alphabet="/ab-= \n\r\t1é\x00"))
    def test_any_text_parses(self, text: str) -> None:
        for name, rest in script.parse(text):
            assert name == name.lower()
            script.fields(rest)

    @given(
        st.dictionaries(st.from_regex(r"[a-z]+", fullmatch=True), st.from_regex(r"[!-~]*", fullmatch=True))
    )
    def test_fields(self, values: dict[str, str]) -> None:
        words = " ".join(f"{key}={value}" for key, value in values.items())
        assert script.fields(f"{words} the rest".strip()) == (values, "the rest")


FLAGS = [f"--{name.replace('_', '-')}" for name in vars(options.Options) if not name.startswith("_")]


class TestPackage:
    def test_agent_needs_the_standard_library_only_and_little_of_it(self) -> None:
        code = "import sys; old = set(sys.modules); import agh_echo.agent; print(*(set(sys.modules) - old))"
        run = subprocess.run(
            [sys.executable, "-S", "-c", code],
            capture_output=True,
            text=True,
            check=True,
            timeout=LIMIT,
            env={"PYTHONPATH": str(PLUGIN)},
        )
        loaded = {name.partition(".")[0] for name in run.stdout.split()}
        assert loaded - {"agh_echo"} <= sys.stdlib_module_names
        heavy = {"asyncio", "typing", "dataclasses", "argparse", "subprocess", "uuid", "shlex", "threading"}
        assert not loaded & heavy

    def test_plugin_registers_the_agent(self) -> None:
        registered: list[Frame] = []
        agh_register_agents(registered.append)
        assert registered[0]["name"] == "echo"
        run = subprocess.run([*registered[0]["argv"], "--help"], capture_output=True, text=True, timeout=30)
        assert (run.returncode, run.stdout) == (0, options.HELP)

    def test_readme_names_every_step_option_and_outcome(self) -> None:
        text = (PLUGIN / "README.md").read_text()
        names = [f"`{flag}" for flag in FLAGS] + [f"| `/{step}" for step in STEPS]
        names += [f"`{outcome}`" for outcome in options.OUTCOMES]
        assert not [name for name in names if name not in text]
