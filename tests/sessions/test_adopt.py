"""`agh session import --from-agent`: the sessions that an agent made by itself become agh's, and continue."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.live import ECHO, Live, Session
from tests.support.resume import define
from tests.support.wait import wait_until

RECALL = "what did I say?"


class OwnAgent:
    """The echo agent, used without agh; it stores its sessions where agh's echo agent finds them."""

    def __init__(self, workspace: Path) -> None:
        self._process = subprocess.Popen(
            ECHO, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=workspace
        )
        self._number, self._workspace = 0, workspace
        self.call("initialize", protocolVersion=1)

    def call(self, method: str, **params: Any) -> Any:
        self._number += 1
        assert self._process.stdin and self._process.stdout
        frame = {"jsonrpc": "2.0", "id": self._number, "method": method, "params": params}
        print(json.dumps(frame), file=self._process.stdin, flush=True)
        for line in self._process.stdout:
            answer = json.loads(line)
            if answer.get("id") == self._number and "method" not in answer:
                assert "error" not in answer, answer
                return answer["result"]
        raise AssertionError("the agent ended")

    def talk(self, *prompts: str, cwd: Path | None = None) -> str:
        """Make a session with these turns and return its id."""
        own_id: str = self.call("session/new", cwd=str(cwd or self._workspace), mcpServers=[])["sessionId"]
        for prompt in prompts:
            self.call("session/prompt", sessionId=own_id, prompt=[{"type": "text", "text": prompt}])
        return own_id

    def __enter__(self) -> OwnAgent:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin and self._process.stdout
        self._process.stdin.close()
        self._process.wait(20)
        self._process.stdout.close()


_TALKS: dict[tuple[str, ...], tuple[str, str]] = {}  # the id and the memory of an agent's session


def talk(live: Live, *prompts: str) -> str:
    """Return the id of a session that the agent has had, with these turns: made once, and then copied."""
    folder, own_workspace = Path(os.environ["AGH_ECHO_HOME"]), json.dumps(str(live.workspace))
    if prompts not in _TALKS:
        with OwnAgent(live.workspace) as agent:
            own_id = agent.talk(*prompts)
        _TALKS[prompts] = own_id, (folder / f"{own_id}.jsonl").read_text().replace(own_workspace, "WORKSPACE")
    own_id, memory = _TALKS[prompts]
    folder.mkdir(exist_ok=True)
    (folder / f"{own_id}.jsonl").write_text(memory.replace("WORKSPACE", own_workspace))
    return own_id


def adopt(live: Live, *args: object, code: int | None = 0, options: str = "") -> Any:
    """Run the import, with these options for the agent; return what it says, or how it ended if it fails."""
    command = ("session", "import", "--from-agent", "echo", *args, "-o", "json")
    done = live.agh(*command, code=code, env={"AGH_ECHO_OPTIONS": options})
    return json.loads(done.stdout) if code == 0 else done


def adopted(live: Live, *args: object, options: str = "") -> Session:
    (report,) = adopt(live, *args, options=options)["imports"]
    assert report["status"] == "imported"
    return live.session(report["session_id"])


def messages(session: Session) -> list[tuple[str, str | None]]:
    lines = session.agh("transcript", "-o", "jsonl").stdout.splitlines()
    return [(message["role"], message.get("content")) for message in map(json.loads, lines)]


def visible(live: Live) -> list[str]:
    folder = live.home / "sessions"
    return [name for name in os.listdir(folder) if not name.startswith(".")] if folder.is_dir() else []


def test_a_session_is_adopted_with_its_history_and_continues(live: Live) -> None:
    own_id = talk(live, "first\n/think hm\n/plan look;leap", "/tool grep path=a.txt three matches\n/say done")
    session = adopted(live)
    meta = session.meta()
    assert (meta["acp_session_id"], meta["agent_name"], meta["turns"]) == (own_id, "echo", 2)
    assert (meta["workspace_path"], meta["state"]) == (str(live.workspace), "stopped")
    assert meta["imported"]["agent"] == "echo"
    assert messages(session) == [
        ("user", "first\n/think hm\n/plan look;leap"),
        ("assistant", "echo: first"),
        ("assistant", ""),
        ("user", "/tool grep path=a.txt three matches\n/say done"),
        ("tool_call", None),
        ("tool_result", None),
        ("assistant", "done"),
    ]
    (plan,), (result,) = session.events("plan"), session.events("tool_result")
    assert [entry["content"] for entry in plan.content["raw"]["entries"]] == ["look", "leap"]
    assert result.content["tool_result"]["content"] == "three matches"
    assert [event.content["stop_reason"] for event in session.events("done")] == ["end_turn"] * 2
    session.check_log()
    assert session.say(RECALL).startswith("SEEN 3 user texts")
    (resumed,) = session.events("session_resumed")
    assert resumed.content["strategy"] == "native_resume"
    assert session.meta()["acp_session_id"] == own_id


def test_a_second_import_changes_nothing(live: Live) -> None:
    own_id = talk(live, "hello")
    session = adopted(live)
    before = session.events()
    for ids in ((), (own_id,)):
        (report,) = adopt(live, *ids)["imports"]
        assert (report["status"], report["reason"]) == ("unchanged", "already here")
        assert (report["session_id"], report["agent_session"]) == (session.id, own_id)
    assert session.events() == before
    assert visible(live) == [session.id]


def test_a_session_that_agh_made_is_recognised(live: Live) -> None:
    session = live.new()
    session.say("hello")
    (report,) = adopt(live)["imports"]
    assert (report["status"], report["session_id"]) == ("unchanged", session.id)


def test_a_list_says_what_is_here_already(live: Live, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with OwnAgent(live.workspace) as agent:
        first = agent.talk("/title the first")
        session = adopted(live)
        second, third = agent.talk("the second"), agent.talk("the third", cwd=elsewhere)
    here = {own["id"]: own for own in adopt(live, "--list")["agent_sessions"]}
    assert here.keys() == {first, second}
    assert (here[first]["title"], here[first]["session_id"]) == ("the first", session.id)
    assert (here[second]["session_id"], here[second]["cwd"]) == (None, str(live.workspace))
    assert here[second]["updated_at"]
    (there,) = adopt(live, "--list", "--cwd", elsewhere)["agent_sessions"]
    assert (there["id"], there["title"]) == (third, "the third")
    assert len(adopt(live, "--list", "--all")["agent_sessions"]) == 3
    lines = live.agh("session", "import", "--from-agent", "echo", "--list").stdout
    assert "the first" in lines and session.id in lines
    assert visible(live) == [session.id]


def test_pages_are_followed(live: Live) -> None:
    with OwnAgent(live.workspace) as agent:
        own_ids = {agent.talk(f"number {number}") for number in range(5)}
    reports = adopt(live, options="--page 2")["imports"]
    assert {report["agent_session"] for report in reports} == own_ids
    assert {report["status"] for report in reports} == {"imported"}


def test_chosen_sessions_alone_are_adopted(live: Live, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    with OwnAgent(live.workspace) as agent:
        agent.talk("not this one")
        chosen, far = agent.talk("this one"), agent.talk("and that", cwd=elsewhere)
    reports = adopt(live, chosen, far)["imports"]
    assert [report["agent_session"] for report in reports] == [chosen, far]
    assert live.session(reports[1]["session_id"]).meta()["workspace_path"] == str(elsewhere)


def test_an_unknown_id_is_refused_before_anything_is_written(live: Live) -> None:
    own_id = talk(live, "hello")
    done = adopt(live, own_id, "no-such-session", code=4)
    assert "agent echo has no session no-such-session" in done.stderr
    assert "agh session import --from-agent echo --list" in done.stderr
    assert visible(live) == []


def test_an_empty_session_is_left_out(live: Live) -> None:
    talk(live)
    (report,) = adopt(live)["imports"]
    assert (report["status"], report["reason"]) == ("skipped", "it has no messages")
    assert visible(live) == []


@pytest.mark.parametrize(
    ("caps", "words"),
    [("load,resume", "cannot list its sessions"), ("list,resume", "cannot replay its sessions")],
)
def test_what_an_agent_does_not_offer_is_said(live: Live, caps: str, words: str) -> None:
    talk(live, "hello")
    done = adopt(live, code=2, options=f"--caps {caps}")
    assert words in done.stderr
    assert "agh " in done.stderr.splitlines()[-1]
    assert visible(live) == []


def test_a_named_session_needs_no_list(live: Live) -> None:
    own_id = talk(live, "hello")
    session = adopted(live, own_id, options="--caps load,resume")
    assert session.meta()["acp_session_id"] == own_id
    assert messages(session) == [("user", "hello"), ("assistant", "echo: hello")]


def test_a_session_that_is_not_listed_can_be_named(live: Live) -> None:
    own_id = talk(live, "hello", "again")
    session = adopted(live, own_id, options="--on-resume unclear-missing")  # lists only what is live
    assert [text for role, text in messages(session) if role == "user"] == ["hello", "again"]


@pytest.mark.parametrize("outcome", ["not-found", "error", "die"])
def test_a_failed_replay_leaves_nothing(live: Live, outcome: str) -> None:
    talk(live, "hello")
    assert adopt(live, code=None, options=f"--on-load {outcome}").returncode != 0
    assert visible(live) == []
    assert os.listdir(live.home / "sessions") == []


def test_one_failed_replay_does_not_stop_the_others(live: Live) -> None:
    own_ids = {talk(live, "one"), talk(live, "two")}
    done = adopt(live, code=None, options="--on-load die --caps load,list")
    assert done.returncode == 7
    reports = json.loads(done.stdout)["imports"]
    assert {report["agent_session"] for report in reports} == own_ids
    assert {report["error"]["code"] for report in reports} == {"agent_died"}


def test_a_late_replay_is_recorded_whole(live: Live) -> None:
    talk(live, "one", "two", "three")
    define(live, "echo", quiet_after_load=0.6)
    session = adopted(live, options="--on-load late")
    assert [text for role, text in messages(session) if role == "user"] == ["one", "two", "three"]


def test_a_killed_import_leaves_nothing_visible(live: Live) -> None:
    own_id = talk(live, "hello")
    env = {"AGH_ECHO_OPTIONS": "--on-load hang"}
    with live.start("session", "import", "--from-agent", "echo", own_id, env=env) as process:
        folder = live.home / "sessions"
        wait_until(lambda: folder.is_dir() and bool(list(folder.glob(".making-*/events.db"))))
        process.send_signal(signal.SIGKILL)
    assert visible(live) == []
    assert live.agh("session", "list", "--all", "-o", "jsonl").stdout == ""
    assert adopted(live).meta()["acp_session_id"] == own_id
    assert [name for name in os.listdir(folder) if name.startswith(".")] == []


def test_imports_at_once_make_one_session(live: Live) -> None:
    talk(live, "hello")
    command = ("session", "import", "--from-agent", "echo", "-o", "json")
    started = [live.start(*command) for _ in range(4)]
    reports = [json.loads(process.communicate(timeout=60)[0])["imports"][0] for process in started]
    assert sorted(report["status"] for report in reports) == ["imported", *["unchanged"] * 3]
    assert len({report["session_id"] for report in reports}) == len(visible(live)) == 1


def test_an_agent_that_wants_a_login_says_so(live: Live) -> None:
    own_id = talk(live, "hello")
    done = adopt(live, own_id, code=9, options="--auth-required")
    assert "agh agent login echo" in done.stderr


@pytest.mark.parametrize(
    "args",
    [("--list",), ("--cwd", "/", "--from", "claude"), ("--from-agent", "echo", "--new-id"),
     ("--from-agent", "echo", "--list", "an-id")],
)  # fmt: skip
def test_options_that_do_not_go_together_are_refused(live: Live, args: tuple[str, ...]) -> None:
    assert "agh session import" in live.agh("session", "import", *args, code=2).stderr


def test_a_turn_that_was_cut_off_stays_open_until_it_is_repaired(live: Live) -> None:
    with OwnAgent(live.workspace) as agent:
        agent.talk("hello", "/tool-open build")
    session = adopted(live)
    (call,) = session.events("tool_call")
    assert [event.turn_id for event in session.events("done")] == ["turn-000001"]
    session.say(RECALL)
    (result,) = session.events("tool_result")
    assert (result.content["tool_call_id"], result.content["outcome"]) == (
        call.content["tool_call_id"],
        "unknown",
    )
    session.check_log()
