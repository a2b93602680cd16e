"""Sessions whose agent runs behind a real sshd: started, cut, resumed; and what crosses the wire."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

from tests.plugins.places.wire import Wire
from tests.support.live import Live, Session
from tests.support.processes import is_alive, kill, processes
from tests.support.wait import wait_until

GONE_WITHIN = 5.0
WORK = "/spawn-setsid 300\n/stream 600 0.05"
SECRET = "s3cret-value-that-is-in-no-argv"


def far_session(live: Live, wire: Wire, *args: str, **more: object) -> Session:
    wire.name(live, **more)
    return live.new(args=("--on", "box", *args))


def at_work(session: Session) -> int:
    """Wait until the turn is under way; the pid of a process of the agent's that left its session."""
    session.wait_for_text("chunk 3 ")
    return int(session.text().partition("spawned: ")[2].split("chunk")[0])


def test_new_prompt_cut_resume(live: Live, wire: Wire) -> None:
    session = far_session(live, wire)
    assert session.meta()["place"] == "box"
    assert session.meta()["cwd"] == str(live.workspace)
    session.tell("remember the lighthouse")
    agent = int(session.tell("/pid").partition("pid: ")[2])
    prompt = session.start_prompt(WORK)
    escaped = at_work(session)
    behind = wire.behind()
    assert agent in behind
    wire.cut()
    _, stderr = prompt.communicate(timeout=20)
    assert (prompt.returncode, b"no connection to box" in stderr) == (7, True)
    wait_until(lambda: not any(map(is_alive, (*behind, escaped))), GONE_WITHIN, "the far side is empty")
    wait_until(lambda: not session.is_live())
    meta = session.meta()
    assert (meta["state"], meta["stop_reason"]) == ("stopped", "error")
    assert meta["failure"]["kind"] == "transport_failure"
    assert meta["failure"]["summary"].startswith("no connection to box: ")
    status = session.status()
    assert (status["is_resumable"], status["place"]) == (True, "box")
    result = session.prompt("what did I say?")
    assert "remember the lighthouse" in result.stdout
    assert "resumed by native_resume" in result.stderr
    assert wire.behind(), "it runs there again"
    session.stop()
    wait_until(lambda: not wire.connections())
    session.check_log()


def test_the_far_side_ends_with_a_keeper_that_is_killed(live: Live, wire: Wire) -> None:
    session = far_session(live, wire)
    session.send(WORK)
    escaped = at_work(session)
    behind = wire.behind()
    session.kill_keeper()
    wait_until(lambda: not any(map(is_alive, (*behind, escaped))), GONE_WITHIN, "the far side is empty")


def test_an_agent_that_hears_neither_end_nor_term_is_ended(live: Live, wire: Wire) -> None:
    wire.name(live)
    (live.home / "agents").mkdir()
    argv = live.agh("agent", "show", "echo", "-o", "json").stdout
    deaf = [*json.loads(argv)["agent"]["argv"], "--deaf"]
    (live.home / "agents" / "deaf.toml").write_text(f'argv = {deaf}\ncrosses = ["AGH_ECHO_*"]\n')
    session = live.session(live.agh("session", "new", "--agent", "deaf", "--on", "box").stdout.strip())
    behind = wire.behind()
    assert len(behind) >= 4
    wire.cut()
    wait_until(lambda: not any(map(is_alive, behind)), GONE_WITHIN, "the far side is empty")
    wait_until(lambda: not session.is_live())


def test_a_network_that_goes_silent_leaves_no_second_agent(live: Live, wire: Wire) -> None:
    """The server does not notice that the wire is dead; the next start ends what it still runs."""
    session = far_session(live, wire)
    session.tell("remember the harbour")
    before = int(session.tell("/pid").partition("pid: ")[2])
    silent = wire.connections()
    wire.cut(signal.SIGSTOP)
    session.kill_keeper()
    wait_until(lambda: not session.is_live())
    assert is_alive(before), "nothing has told the far side"
    assert "harbour" in session.say("what did I say?")
    assert not is_alive(before)
    for pid in silent:
        kill(pid)


def test_nothing_but_what_the_agent_needs_crosses_and_no_secret_is_in_an_argv(live: Live, wire: Wire) -> None:
    wire.name(live, env=["NEEDED_TOKEN", f'SAID={SECRET} it\'s "quoted"\n$HOME', "NOT_SET_HERE"])
    environ = {"NEEDED_TOKEN": SECRET, "OTHER_TOKEN": SECRET, "AGH_ECHO_OPTIONS": "--no-usage"}
    session = live.session(
        live.agh("session", "new", "--agent", "echo", "--on", "box", env=environ).stdout.strip()
    )
    assert not [process for process in processes() if any(SECRET in word for word in process.argv)]
    names = ("NEEDED_TOKEN", "SAID", "OTHER_TOKEN", "NOT_SET_HERE", "AGH_HOME", "AGH_ECHO_OPTIONS")
    reply = session.tell("\n".join(f"/env {name}" for name in names))
    assert f"NEEDED_TOKEN={SECRET}\n" in reply
    assert f'SAID={SECRET} it\'s "quoted"\n$HOME\n' in reply
    for name in ("OTHER_TOKEN", "NOT_SET_HERE", "AGH_HOME"):
        assert f"{name} is not set" in reply
    assert "AGH_ECHO_OPTIONS=--no-usage" in reply
    assert SECRET not in (session.directory / "meta.json").read_text()


def test_the_agent_works_with_its_own_hands(live: Live, wire: Wire) -> None:
    """Files and terminals of this machine are not served to an agent elsewhere, whatever it asks."""
    session = far_session(live, wire, "--permissions", "approve-all")
    reply = session.tell("/write here.txt text\n/read /etc/hostname\n/run touch here.txt")
    assert reply.count("error -32601") == 3
    assert not (live.workspace / "here.txt").exists()
    assert session.tell("/ask kind=read path=x") == "permission: allow_once"


def test_another_directory_there(live: Live, wire: Wire, tmp_path: Path) -> None:
    there = tmp_path / "there it's"
    there.mkdir()
    session = far_session(live, wire, dir=str(there))
    assert session.tell("/cwd") == f"cwd: {there} (process: {there})"
    assert session.meta()["workspace_path"] == str(live.workspace)
    for folder, code in ((live.workspace, 0), (tmp_path, 2)):
        (folder / "note.txt").write_text("a note")
        session.prompt("see this", "--attach", folder / "note.txt", code=code)
    (message,) = session.events("user_message")[1:]
    (attached,) = message.content["attachments"]
    assert attached["resource"]["uri"] == f"file://{there}/note.txt", "as the agent finds it"
    session.stop()
    os.rename(there, tmp_path / "moved")
    error = session.error("resume", code=4)
    assert error["code"] == "workspace_gone"
    assert str(there) in error["message"]


def test_an_agent_that_is_not_installed_there(live: Live, wire: Wire) -> None:
    wire.name(live)
    result = live.agh(
        "session", "new", "--command", "no-such-agent --acp", "--on", "box", "-o", "json", code=9
    )
    error = json.loads(result.stderr.splitlines()[-1])["error"]
    assert error["code"] == "agent_not_installed"
    assert "no-such-agent is not on PATH in box" in error["message"]


def test_an_agent_that_ends_by_itself_is_not_a_broken_wire(live: Live, wire: Wire) -> None:
    session = far_session(live, wire)
    session.send("/stderr out of luck\n/exit 255")
    wait_until(lambda: not session.is_live())
    meta = session.meta()
    assert (meta["stop_reason"], meta["failure"]["kind"]) == ("agent_crashed", "process_exit")
    assert "exited with code 255 in box" in meta["failure"]["summary"]
    assert "out of luck" in meta["failure"]["summary"]


def test_a_place_that_does_not_answer(live: Live, wire: Wire) -> None:
    session = far_session(live, wire)
    session.tell("remember")
    session.stop()
    token = session.meta()["acp_session_id"]
    live.configure('[places.box]\non = "ssh:127.0.0.1"\noptions = ["-F", "none", "-p", "1"]\n')
    error = session.error("resume", code=7)
    assert error["code"] == "place_gone"
    assert "127.0.0.1" in error["message"]
    meta = session.meta()
    assert meta["failure"]["kind"] == "transport_failure"
    assert meta["acp_session_id"] == token, "a dead transport is never 'not found'"
    wire.name(live)
    assert "remember" in session.say("what did I say?")


def test_doctor(live: Live, wire: Wire) -> None:
    wire.name(live)
    report = json.loads(live.agh("agent", "doctor", "echo", "--on", "box", "-o", "json").stdout)["agent"]
    assert (report["state"], report["place"], report["directory"]) == ("works", "box", str(live.workspace))
    wait_until(lambda: not wire.connections())
    live.configure('[places.box]\non = "ssh:127.0.0.1"\noptions = ["-F", "none", "-p", "1"]\n')
    result = live.agh("agent", "doctor", "echo", "--on", "box", "-o", "json", code=7)
    assert json.loads(result.stderr)["error"]["code"] == "place_gone"


def test_delete_forgets_the_conversation_there(live: Live, wire: Wire, tmp_path: Path) -> None:
    session = far_session(live, wire)
    session.tell("hello")
    session.stop()
    assert os.listdir(tmp_path / "echo")
    receipt = json.loads(session.agh("delete", "-o", "json").stdout)["deleted"]
    assert receipt["not_removed"] == []
    assert os.listdir(tmp_path / "echo") == []
