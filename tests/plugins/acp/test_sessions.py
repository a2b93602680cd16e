"""Opening, listing, showing and deleting sessions over ACP."""

from __future__ import annotations

import json
import os
import signal

from tests.plugins.acp.client import Client, text_of
from tests.support.live import ECHO, Live
from tests.support.mounts import read_only
from tests.support.wait import wait_until


def test_it_says_what_it_can_do_and_asks_for_no_login(live: Live) -> None:
    answer = Client(live, "--agent", "echo").initialize()
    assert answer["protocolVersion"] == 1
    assert answer["authMethods"] == []
    assert answer["agentCapabilities"]["loadSession"] is True
    assert set(answer["agentCapabilities"]["sessionCapabilities"]) == {
        *("list", "resume", "close", "delete", "fork", "additionalDirectories")
    }


def test_a_new_session_is_one_of_agh(client: Client, live: Live) -> None:
    result = client.call("session/new", cwd=str(live.workspace), mcpServers=[])
    assert result["modes"]["currentModeId"] == "ask"
    assert [option["id"] for option in result["configOptions"]] == ["model"]
    sessions = json.loads(live.agh("session", "list", "-o", "json").stdout)["sessions"]
    assert [session["id"] for session in sessions] == [result["sessionId"]]


def test_an_agent_that_does_not_start_leaves_nothing(live: Live) -> None:
    client = Client(live, "--command", "false")
    client.initialize()
    assert client.error("session/new", cwd=str(live.workspace), mcpServers=[])["code"] == -32603
    assert json.loads(live.agh("session", "list", "-o", "json").stdout)["sessions"] == []


def test_a_missing_login_is_an_error_with_the_command(live: Live) -> None:
    folder = live.home / "agents"
    folder.mkdir(parents=True, mode=0o700)
    (folder / "locked.toml").write_text(f"argv = {json.dumps([*ECHO, '--auth-required'])}\n")
    client = Client(live, "--agent", "locked")
    client.initialize()
    error = client.error("session/new", cwd=str(live.workspace), mcpServers=[])
    assert error["code"] == -32000
    assert "agh agent login" in error["message"]


def test_the_list_has_sessions_of_the_command_line_too(client: Client, live: Live) -> None:
    named = live.new(args=("--name", "fix-login"))
    own = client.new()
    other = live.workspace.parent / "other"
    other.mkdir()
    elsewhere = client.new(cwd=str(other))
    listed = {info["sessionId"]: info for info in client.call("session/list")["sessions"]}
    assert set(listed) == {named.id, own.id, elsewhere.id}
    assert listed[named.id]["title"] == "fix-login"
    assert listed[own.id]["updatedAt"].endswith("Z")
    here = client.call("session/list", cwd=str(other))["sessions"]
    assert [info["sessionId"] for info in here] == [elsewhere.id]


def test_a_session_without_a_title_is_listed_without_one(client: Client) -> None:
    """codecompanion.nvim cannot list sessions if a title is null."""
    session = client.new()
    (info,) = client.call("session/list")["sessions"]
    assert info["sessionId"] == session.id
    assert None not in info.values()
    assert "title" not in info


def test_a_session_is_loaded_from_its_log_in_whole_messages(client: Client, live: Live) -> None:
    session = client.new()
    client.prompt(session, "one two three four")
    client.prompt(session, "/tool read delay=0 done")
    session.stop()
    client.close()

    later = Client(live, "--agent", "echo")
    later.initialize()
    updates = later.load(session)
    assert text_of(updates, "user_message_chunk") == ["one two three four", "/tool read delay=0 done"]
    assert text_of(updates, "agent_message_chunk")[0] == "echo: one two three four"
    (call,) = [update for update in updates if update["sessionUpdate"] == "tool_call"]
    assert call["status"] == "completed"
    assert not [update for update in updates if update["sessionUpdate"] == "tool_call_update"]
    assert not session.is_live()  # nothing is started to show what is on disk


def test_a_loaded_session_goes_on_with_its_agent(shared_client: Client, shared_live: Live) -> None:
    session = shared_client.new()
    shared_client.prompt(session, "remember me")
    session.stop()
    shared_client.load(session)
    assert shared_client.prompt(session, "what did i say?")["stopReason"] == "end_turn"
    assert '"remember me"' in shared_client.text(session)


def test_the_thread_says_that_the_agent_has_forgotten(client: Client, live: Live) -> None:
    session = client.new()
    client.prompt(session, "remember me")
    session.stop()
    for file in (live.home.parent / "echo").rglob("*.jsonl"):
        file.unlink()
    client.load(session)
    client.prompt(session, "hello")
    assert [update for update in client.updates(session, "notice") if update["severity"] == "warning"]
    notices = text_of(client.load(session), "agent_message_chunk")
    assert [text for text in notices if text.startswith("[agh] ")]


def test_a_resumed_session_shows_nothing_old(shared_client: Client, shared_live: Live) -> None:
    session = shared_live.new()
    session.tell("from before")
    shared_client.call("session/resume", sessionId=session.id, cwd=str(shared_live.workspace), mcpServers=[])
    assert shared_client.prompt(session, "and now")["stopReason"] == "end_turn"
    assert shared_client.text(session) == "echo: and now"


def test_a_fork_has_the_history(shared_client: Client, shared_live: Live) -> None:
    session = shared_client.new()
    shared_client.prompt(session, "remember me")
    result = shared_client.call(
        "session/fork", sessionId=session.id, cwd=str(shared_live.workspace), mcpServers=[]
    )
    forked = shared_live.session(result["sessionId"])
    assert forked.id != session.id
    shared_client.prompt(forked, "what did i say?")
    assert '"remember me"' in shared_client.text(forked)


def test_closing_detaches_and_never_stops(shared_client: Client) -> None:
    session = shared_client.new()
    keeper = session.keeper
    shared_client.call("session/close", sessionId=session.id)
    assert session.keeper == keeper
    session.tell("unseen")
    assert "unseen" not in shared_client.text(session)


def test_deleting_ends_an_idle_session_and_refuses_one_that_works(shared_client: Client) -> None:
    session = shared_client.new()
    number = shared_client.start_prompt(session, "/stream 1000 0.05")
    wait_until(lambda: shared_client.text(session), what="a chunk")
    assert shared_client.error("session/delete", sessionId=session.id)["code"] == -32600
    shared_client.notify("session/cancel", sessionId=session.id)
    assert shared_client.result(number)["stopReason"] == "cancelled"
    shared_client.call("session/delete", sessionId=session.id)
    assert not session.directory.exists()
    assert shared_client.error("session/load", sessionId=session.id, cwd="/", mcpServers=[])["code"] == -32002


def test_deleting_what_is_gone_or_never_was_succeeds(shared_client: Client) -> None:
    session = shared_client.new()
    for session_id in (session.id, session.id, "never-created"):
        assert shared_client.call("session/delete", sessionId=session_id) == {}


def test_stop_kill_ends_a_keeper_that_an_editor_started_and_that_does_not_respond(client: Client) -> None:
    session = client.new()
    os.kill(session.keeper, signal.SIGSTOP)
    view = json.loads(session.agh("stop", "--kill", "-o", "json").stdout)["session"]
    assert (view["state"], session.is_live()) == ("stopped", False)


def test_modes_and_options_are_set(shared_client: Client) -> None:
    session = shared_client.new()
    shared_client.call("session/set_mode", sessionId=session.id, modeId="code")
    answer = shared_client.call(
        "session/set_config_option", sessionId=session.id, configId="model", value="large"
    )
    assert answer["configOptions"][0]["currentValue"] == "large"
    assert session.meta()["current"] == {"mode": "code", "model": "large"}
    assert shared_client.error("session/set_mode", sessionId=session.id, modeId="none")["code"] == -32602


def test_mcp_servers_are_passed_on_and_not_stored(live: Live) -> None:
    server = {"name": "tools", "command": "true", "args": [], "env": [{"name": "TOKEN", "value": "s3cret"}]}
    client = Client(live, "--agent", "echo")
    client.initialize()
    session = client.new(mcpServers=[server])
    assert session.meta()["mcp_servers"] == []
    assert "s3cret" not in "".join(
        path.read_text(errors="replace") for path in session.directory.iterdir() if path.is_file()
    )
    keeping = Client(live, "--agent", "echo", "--keep-mcp")
    keeping.initialize()
    assert keeping.new(mcpServers=[server]).meta()["mcp_servers"] == [server]


def test_a_home_that_is_read_only_is_no_bug(client: Client, live: Live) -> None:
    client.new()  # so that there is a home
    with read_only(live.home):
        error = client.error("session/new", cwd=str(live.workspace), mcpServers=[])
    assert "Read-only file system" in error["message"] and "AGH_HOME" in error["message"]
    assert error["data"]["code"] == "home_read_only"
