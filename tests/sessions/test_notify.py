"""Notifications: what is sent, to whom, and when nothing is."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.live import Live
from tests.support.permissions import STAYS, raw_request
from tests.support.program import in_process
from tests.support.questions import form
from tests.support.receiver import Receiver, receiver
from tests.support.terminal import open_terminal
from tests.support.wait import wait_until

SECRET = "sk-ant-api03-" + "Zz9" * 12  # the shape of a key
EDIT = raw_request({"kind": "execute", "rawInput": {"command": f"deploy --key {SECRET}"}})


@pytest.fixture
def hook() -> Iterator[Receiver]:
    with receiver() as server:
        yield server


def notify(live: Live, text: str) -> None:
    live.configure(f'[notify]\ngrace = "0s"\ntimeout = "5s"\n{text}\n')


def test_a_webhook_hears_that_a_session_needs_its_user(live: Live, hook: Receiver) -> None:
    notify(live, f'webhook = "{hook.url}/agh"')
    session = live.new(args=("--name", "deploy"))
    session.send(EDIT + STAYS)
    request = hook.next()
    assert (request.path, request.content["event"]) == ("/agh", "needs_you")
    assert request.content["title"] == "deploy asks for permission"
    assert request.content["text"].startswith("run: deploy --key ")
    assert (request.content["session_id"], request.content["name"]) == (session.id, "deploy")
    assert request.content["request_id"].startswith("perm-")
    assert SECRET not in json.dumps(request)


def test_a_question_is_quoted(live: Live, hook: Receiver) -> None:
    notify(live, f'webhook = "{hook.url}"')
    session = live.new()
    session.send(form(f"Which of them, {SECRET}?", ("name",), name={"type": "string"}) + STAYS)
    content = hook.next().content
    assert content["title"].endswith(" asks a question")
    assert content["text"].startswith("Which of them, ")
    assert SECRET not in json.dumps(content)


def test_an_answer_within_the_grace_keeps_it_quiet(live: Live, hook: Receiver) -> None:
    live.configure(f'[notify]\ngrace = "2s"\nturn_end_after = "0s"\nwebhook = "{hook.url}"\n')
    session = live.new()
    turn_id = session.send("/ask path=a.txt Edit a.txt")
    session.decide("allow")
    wait_until(lambda: session.has_ended(turn_id))
    session.send(EDIT + STAYS)
    assert [hook.next(1).content["event"], hook.next(2).content["event"]] == ["turn_end", "needs_you"]


def test_nobody_is_notified_while_someone_is_attached(live: Live, hook: Receiver) -> None:
    notify(live, f'turn_end_after = "0s"\nwebhook = "{hook.url}"')
    session = live.new()
    session.call("attach", holder="me", ttl=600)
    session.tell("hello")
    session.call("detach", holder="me")
    session.tell("hello again")
    assert hook.next().content["event"] == "turn_end"
    session.stop()
    assert len(hook.received) == 1


def test_ends_of_turns_and_sessions_are_told_apart(live: Live, hook: Receiver) -> None:
    notify(live, f'turn_end_after = "1h"\nwebhook = "{hook.url}"')
    first = live.new(args=("--name", "first"))
    first.tell("hello")
    first.prompt("/error -32603 the model is gone", code=1)
    failed = hook.next().content
    assert (failed["event"], failed["title"]) == ("failed", "first failed in a turn")
    assert "the model is gone" in failed["text"]
    first.prompt("/crash", code=7)
    assert hook.next(2).content["title"] == "first failed", "once, for the turn and the session"
    limited = live.new(args=("--name", "limited", "--max-turns", "1"))
    limited.tell("hello")
    content = hook.next(3).content
    assert (content["event"], content["title"]) == ("stopped", "limited stopped: max_turns")
    quiet = live.new()
    quiet.tell("hello")
    quiet.stop()
    assert len(hook.received) == 3


def test_only_the_chosen_events_are_told(live: Live, hook: Receiver) -> None:
    notify(live, f'events = ["turn_end"]\nturn_end_after = "0s"\nwebhook = "{hook.url}"')
    session = live.new()
    turn_id = session.send("/ask path=a.txt Edit a.txt")
    session.decide("deny")
    wait_until(lambda: session.has_ended(turn_id))
    assert hook.next().content["event"] == "turn_end"
    assert len(hook.received) == 1


# https://docs.ntfy.sh/publish/#publish-as-json. No package has the server itself, so a receiver checks that
# what it gets is as documented.
NTFY_FIELDS = {"topic": str, "message": str, "title": str, "tags": list, "priority": int, "click": str}


def test_an_ntfy_server_gets_a_topic_and_the_token(live: Live, hook: Receiver) -> None:
    notify(live, f'ntfy = "{hook.url}/my-topic"\nntfy_token = "tk_1"')
    session = live.new(args=("--name", "tëst"))
    session.send(EDIT + STAYS)
    request = hook.next()
    assert (request.path, request.headers["Authorization"]) == ("/", "Bearer tk_1")
    assert all(isinstance(value, NTFY_FIELDS[name]) for name, value in request.content.items())
    assert all(isinstance(tag, str) for tag in request.content["tags"])
    assert (request.content["topic"], request.content["priority"]) == ("my-topic", 4)
    assert request.content["title"] == "tëst asks for permission"
    assert SECRET not in json.dumps(request.content)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(live: Live, hook: Receiver, status: int) -> None:
    with receiver() as elsewhere:
        hook.status, hook.location = status, f"{elsewhere.url}/taken"
        notify(live, f'ntfy = "{hook.url}/my-topic"\nntfy_token = "tk_1"')
        result = in_process("notify", "test", cwd=live.workspace)
        assert result.returncode != 0
        assert f"HTTP {status}; use the address that it redirects to" in result.stdout + result.stderr
        assert elsewhere.received == []


def test_a_limit_is_told_with_the_time_of_its_reset(live: Live, hook: Receiver) -> None:
    notify(live, f'webhook = "{hook.url}"')
    session = live.new(args=("--name", "work"))
    session.prompt("/limit 1 You've hit your usage limit; try again in 2 hours.", "--park", code=10)
    content = hook.next().content
    assert content["event"] == "limited"
    assert content["title"].startswith("work is at a usage limit until 20")
    assert "usage limit" in content["text"]
    session.stop()
    assert len(hook.received) == 1


def test_a_request_that_nobody_answers_in_time_is_told(live: Live, hook: Receiver) -> None:
    live.configure(
        f'[permissions]\ntimeout = "0.2s"\n[questions]\ntimeout = "0.2s"\n[notify]\nwebhook = "{hook.url}"\n'
    )
    session = live.new(args=("--name", "work"))
    session.send(EDIT + STAYS)
    content = hook.next().content
    assert (content["event"], content["title"]) == ("needs_you", "work got no answer in time")
    assert content["text"].startswith("denied, because nobody answered in time: run: deploy")
    assert SECRET not in json.dumps(content)
    other = live.new()
    other.send(form("Which of them?", ("name",), name={"type": "string"}) + STAYS)
    assert hook.next(2).content["text"] == "declined, because nobody answered in time: Which of them?"


def test_killed_keepers_are_told_by_the_repair_that_finds_them(live: Live, hook: Receiver) -> None:
    notify(live, f'webhook = "{hook.url}"')
    sessions = [live.new(args=("--name", f"work-{number}")) for number in range(4)]
    sessions[0].kill_keeper()
    live.agh("session", "repair", "--all")
    content = hook.next().content
    assert (content["event"], content["title"]) == ("failed", "work-0 failed")
    assert content["text"] == "keeper ended without closing the session"
    live.agh("session", "repair", "--all")
    sessions[0].agh("resume")
    for session in sessions:
        session.kill_keeper()
    live.agh("session", "repair", "--all", "--dry-run")
    live.agh("session", "repair", "--all")
    assert hook.next(2).content["title"] == "4 sessions failed"
    assert len(hook.received) == 2


def test_apprise_sends_and_names_no_url(live: Live, hook: Receiver) -> None:
    pytest.importorskip("apprise")
    secret = "user:sk-secret"
    service = hook.url.replace("http://", f"json://{secret}@")
    notify(live, f'apprise = ["{service}/agh"]')
    session = live.new(args=("--name", "work"))
    session.send(EDIT + STAYS)
    request = hook.next()
    assert (request.path, request.content["title"]) == ("/agh", "work asks for permission")
    assert request.content["type"] == "warning"
    assert SECRET not in json.dumps(request.content)
    notify(live, f'apprise = ["{service}", "nonsense://{secret}@host", "json://{secret}@127.0.0.1:1"]')
    result = live.agh("notify", "test", code=1)
    assert result.stdout == "apprise  failed: URL number 2 is not a URL that Apprise supports\n"
    notify(live, f'apprise = ["json://{secret}@127.0.0.1:1"]')
    result = live.agh("notify", "test", code=1)
    assert result.stdout == "apprise  failed: a service rejected it\n"
    assert "sk-secret" not in result.stderr


def test_apprise_that_is_not_installed_says_how(live: Live, tmp_path: Path) -> None:
    (tmp_path / "apprise.py").write_text("raise ImportError")
    notify(live, 'apprise = ["json://localhost"]')
    result = live.agh("notify", "test", code=1, env={"PYTHONPATH": str(tmp_path)})
    assert result.stdout.startswith("apprise  failed: it is not installed: ")
    assert "agh-cli[apprise]" in result.stdout


def test_a_command_gets_the_notification_on_its_standard_input(live: Live, tmp_path: Path) -> None:
    written = tmp_path / "notification"
    notify(live, f"""command = "cat > {written}.new && mv {written}.new {written}" """)
    session = live.new()
    session.send(EDIT + STAYS)
    wait_until(written.exists)
    assert json.loads(written.read_text())["session_id"] == session.id


def test_a_notifier_that_fails_or_hangs_delays_nothing(live: Live, hook: Receiver, tmp_path: Path) -> None:
    hook.answering.clear()
    pids = tmp_path / "pids"
    notify(
        live,
        f'turn_end_after = "0s"\nwebhook = "{hook.url}/secret-path"\nntfy = "http://127.0.0.1:1/t"\n'
        f'command = "echo $$ >> {pids}; sleep 600"',
    )
    session = live.new()
    session.tell("hello")
    hook.next()
    wait_until(pids.exists)
    for _ in range(3):
        session.tell("hello")
    assert not hook.answering.is_set(), "turns ended while the notifier hung"
    log = session.directory / "keeper.log"
    wait_until(lambda: log.read_text().count("notify: command: it took too long") >= 4)
    text = log.read_text()
    assert "notify: webhook: no answer in time" in text
    assert "notify: ntfy: " in text
    assert "secret-path" not in text
    for pid in pids.read_text().split():
        wait_until(lambda pid=pid: not os.path.exists(f"/proc/{pid}"))  # type: ignore[misc]


@pytest.mark.parametrize("is_trusted", [False, True])
def test_a_workspace_cannot_set_notifiers(live: Live, hook: Receiver, is_trusted: bool) -> None:
    if is_trusted:
        live.trust()
    folder = live.workspace / ".agh"
    folder.mkdir()
    (folder / "config.toml").write_text(
        f'[notify]\ngrace = "0s"\nturn_end_after = "0s"\nwebhook = "{hook.url}"\n'
    )
    if is_trusted:
        result = live.agh("session", "new", "--agent", "echo", code=2)
        assert "notify can only be set in your own" in result.stderr
    else:
        session = live.new()
        session.tell("hello")
        session.stop()
    assert hook.received == []


def test_a_link_leads_to_the_page_while_it_is_served_and_has_no_token(live: Live, hook: Receiver) -> None:
    notify(live, f'turn_end_after = "0s"\nwebhook = "{hook.url}"')
    session = live.new()
    with live.start("serve", "--port", "0") as server:
        assert server.stdout
        url = server.stdout.readline().decode().removeprefix("listening on ").strip()
        wait_until((live.home / "serve.url").exists)
        session.tell("hello")
        assert hook.next().content["link"] == f"{url}/#/{session.id}"
        token = (live.home / "serve.token").read_text().strip()
        assert token not in json.dumps(hook.received)
        server.terminate()
        server.wait(30)
    assert not (live.home / "serve.url").exists()
    session.tell("hello")
    assert hook.next(2).content["link"] is None


BODY = "run: run \\x1b]0"
OSC = {
    "9": f"\x1b]9;work needs you: {BODY};",
    "777": f"\x1b]777;notify;work needs you;{BODY},",
    "99": f"\x1b]99;i=agh:d=0;work needs you\x1b\\\x1b]99;i=agh:p=body;{BODY};",
}


@pytest.mark.parametrize(("osc", "begins"), OSC.items(), ids=OSC)
def test_a_terminal_gets_the_bell_and_an_osc_sequence(live: Live, osc: str, begins: str) -> None:
    live.configure(f'[notify]\nbell = true\nosc = "{osc}"\nturn_end_after = "0s"\n')
    hostile = raw_request({"kind": "execute", "rawInput": {"command": f"run \x1b]0;x\x07 {SECRET}"}})
    with open_terminal(
        live, "run", "--agent", "echo", "--name", "work", f"{hostile}\n/sleep 1.1"
    ) as terminal:
        terminal.shows(begins)
        terminal.shows("\x1b\\\a")
        terminal.shows("allow it?")
        notification = terminal.printed.partition(begins)[2].partition("\x1b\\")[0]
        assert "\x1b" not in notification and SECRET not in notification
        terminal.type("n\n")
        terminal.ends()
        assert "ended its turn" in terminal.printed


def test_a_request_that_is_decided_beforehand_rings_no_bell(live: Live) -> None:
    live.configure("[notify]\nbell = true\n")
    args = ("run", "--agent", "echo", "--permissions", "approve-all", "/ask path=a.txt Edit a.txt")
    with open_terminal(live, *args) as terminal:
        assert terminal.ends() == 0
        assert "permission: allow" in terminal.printed
        assert "\a" not in terminal.printed


def test_a_watched_inbox_rings_for_what_comes_in(live: Live) -> None:
    live.configure('[notify]\nbell = true\nosc = "9"\n')
    session = live.new(args=("--name", "work"))
    with open_terminal(live, "inbox", "--watch") as terminal:
        terminal.shows("the inbox is empty; watching")
        session.send(EDIT + STAYS)
        terminal.shows("\x1b]9;work: permission: run: deploy")
        assert SECRET not in terminal.printed.partition("\x1b]9;")[2].partition("\x1b\\")[0]


def test_notify_test_says_what_works(live: Live, hook: Receiver) -> None:
    result = in_process("notify", "test", cwd=live.workspace)
    assert result.returncode == 2 and "no notifier is configured" in result.stderr
    notify(live, f'webhook = "{hook.url}"\ncommand = "exit 3"\nbell = true')
    result = live.agh("notify", "test", code=1)
    assert result.stdout.splitlines() == [
        "webhook  sent",
        "command  failed: it exited with 3",
        "bell  failed: stderr is not a terminal",
    ]
    assert "these notifiers failed: command, bell" in result.stderr
    assert hook.next().content["title"] == "agh notify test"
    hook.status = 500
    notify(live, f'webhook = "{hook.url}"')
    result = in_process("notify", "test", cwd=live.workspace)
    assert (result.returncode, result.stdout) == (1, "webhook  failed: HTTP 500\n")
