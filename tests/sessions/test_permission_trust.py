"""Answers hit what was seen: they name their request, count for what was shown, and come from the user."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from agh.errors import AghError
from tests.sessions.test_permission_subjects import shown, update
from tests.support.live import ECHO, Live, Session, Share
from tests.support.permissions import STAYS, answers, outcomes, pending, raw_request, requests
from tests.support.terminal import open_terminal
from tests.support.wait import wait_until

EARLY_AGENT = """
import json, sys
def send(**frame): print(json.dumps({"jsonrpc": "2.0", **frame}), flush=True)
def read(): return json.loads(sys.stdin.readline() or "{}")
while frame := read():
    if frame.get("method") == "initialize":
        send(id=frame["id"], result={"protocolVersion": 1, "agentCapabilities": {}})
    elif frame.get("method") == "session/new":
        options = [{"optionId": kind, "name": kind, "kind": kind} for kind in ("allow_once", "reject_once")]
        tool = {"toolCallId": "1", "title": "Index it", "kind": "execute", "rawInput": {"command": "index ."}}
        params = {"sessionId": "", "toolCall": tool, "options": options}
        send(id="early", method="session/request_permission", params=params)
        answer = read()
        print(answer, file=sys.stderr, flush=True)
        open("answer", "w").write(json.dumps(answer))
        send(id=frame["id"], result={"sessionId": "s1"})
    elif frame.get("method") == "session/prompt":
        update = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "hello"}}
        send(method="session/update", params={"sessionId": "s1", "update": update})
        send(id=frame["id"], result={"stopReason": "end_turn"})
    elif "id" in frame:
        send(id=frame["id"], result={})
"""


def test_an_answer_without_a_request_is_refused(shared_with: Share) -> None:
    session = shared_with()
    session.send("/ask path=a.txt")
    pending(session)
    for request_id in (None, "", 7):
        with pytest.raises(AghError, match="name the request"):
            session.call("decide", request_id=request_id, verdict="allow")
    assert pending(session).decision is None


def test_of_several_none_is_picked(shared_with: Share) -> None:
    session = shared_with()
    session.send("\n".join(raw_request({"kind": kind}) for kind in ("move", "delete")) + STAYS)
    wait_until(lambda: len(requests(session)) == 2)
    process = session.agh("approve", code=2)
    assert "2 permission requests are open" in process.stderr
    assert all(one.request_id in process.stderr for one in requests(session)), "they are shown"
    assert outcomes(session) == [(None, None)] * 2


def test_a_request_that_changed_after_it_was_shown_is_another_one(shared_with: Share) -> None:
    session = shared_with()
    first = {"kind": "execute", "rawInput": {"command": "ls"}}
    change = update({"rawInput": {"command": "rm -rf x"}}, kind="tool_call_update")
    session.send("\n".join([update(first), raw_request({}), "/sleep 0.5", change]) + STAYS)
    before = shown(session)
    wait_until(lambda: len(requests(session)) == 2)
    process = session.agh("approve", before["request_id"], code=4)
    assert "rm -rf x" in process.stderr, "what waits now is shown"
    assert outcomes(session) == [("cancelled", "changed"), (None, None)]
    after = shown(session)
    assert (before["command"], after["command"]) == ("ls", "rm -rf x")
    with pytest.raises(AghError, match="has changed"):
        session.call("decide", request_id=after["request_id"], digest=before["digest"], verdict="allow")
    session.call("decide", request_id=after["request_id"], digest=after["digest"], verdict="allow")
    assert outcomes(session)[1] == ("allowed", "user")


def test_only_what_the_agent_offers_can_be_answered(shared_with: Share) -> None:
    session = shared_with()
    session.send(raw_request({"kind": "edit"}, ("allow_once", "reject_once")) + STAYS)
    pending(session)
    for verb in ("approve", "deny"):
        assert session.error(verb, "--always", code=2)["code"] == "permission_not_offered"
    assert shown(session)["offered"] == ["allow", "deny"]
    session.agh("deny")
    assert outcomes(session) == [("denied", "user")]


def test_the_question_has_only_the_choices_that_are_offered(shared_with: Share) -> None:
    session = shared_with()
    step = raw_request({"kind": "edit"}, ("allow_once", "reject_once"))
    with open_terminal(session.live, "session", "prompt", session.id, step + STAYS) as terminal:
        terminal.shows("allow it? [y] allow once “allow_once” · [n] deny “reject_once”:")
        terminal.type("a\ny\n")
        wait_until(lambda: outcomes(session) == [("allowed", "terminal")])
        session.call("cancel")
        terminal.ends()


def test_an_answer_after_the_deadline_does_nothing(live: Live) -> None:
    """Also if the keeper could not act on its deadline, because it was frozen."""
    live.configure("[permissions]\ntimeout = '0.5s'")
    session = live.new()
    keeper = session.keeper
    session.send("/ask path=a.txt")
    request = pending(session)
    os.kill(keeper, 19)
    try:
        process = live.start("session", "approve", session.id, request.request_id)
        wait_until(lambda: "keeper.sock" in os.listdir(session.directory))
        with pytest.raises(Exception, match="timed out"):
            process.communicate(timeout=1)
    finally:
        os.kill(keeper, 18)
    _, error = process.communicate(timeout=20)
    assert process.returncode == 4, error
    session.wait_idle()
    assert outcomes(session) == [("denied", "timeout")]


def test_what_nobody_answered_is_shown(live: Live) -> None:
    live.configure("[permissions]\ntimeout = '0.2s'")
    session = live.new()
    session.tell("/ask path=a.txt")
    about = f"denied, because nobody answered in time: edit: {live.workspace}/a.txt"
    assert session.markers() == ["permission_timeout"]
    assert about in session.agh("recap").stdout
    assert about in session.agh("transcript").stdout
    (listed,) = json.loads(live.agh("session", "list", "-o", "json").stdout)["sessions"]
    assert listed["unanswered_permissions"] == 1
    assert "(1 unanswered)" in live.agh("session", "list").stdout
    session.tell("hello")
    assert session.status()["unanswered_permissions"] == 0


def answering(session: Session) -> str:
    """Return a shell line that approves the session's request, and says how that ended."""
    return f"{sys.executable} -m agh session approve {session.id} 2>&1; echo exit $?"


@pytest.mark.parametrize("how", ["a child", "a daemon without an environment"])
def test_the_agent_cannot_answer_for_its_user(shared_with: Share, how: str) -> None:
    session = shared_with("[[permissions.rules]]\ndecision = 'allow'\nkind = 'execute'\n")
    line = answering(session)
    if how != "a child":
        home = f"AGH_HOME={session.live.home} PATH={os.environ['PATH']}"
        line = f"env -i {home} setsid sh -c '({line}) > out & sleep 0.1'; "
        line += "while ! grep -q exit out; do sleep 0.1; done; cat out"
    session.send(
        raw_request({"kind": "edit", "locations": [{"path": "a.txt"}]}) + f"\n/run {line}\n/say done"
    )
    wait_until(lambda: "exit 5" in session.text())
    assert "cannot answer its own requests" in session.text()
    assert outcomes(session)[0] in ((None, None), ("cancelled", "turn_end"))
    (warning,) = session.events("runtime_warning")
    assert "tried to answer perm-" in warning.content["text"]


def test_nor_can_it_loosen_its_own_permissions(shared_with: Share) -> None:
    session = shared_with("[[permissions.rules]]\ndecision = 'allow'\nkind = 'execute'\n")
    line = f"{sys.executable} -m agh session set {session.id} permissions=approve-all 2>&1; echo exit $?"
    assert "exit 5" in session.tell(f"/run {line}")
    assert session.meta()["permissions"] is None


def test_it_can_if_the_session_allows_it(live: Live) -> None:
    live.configure("[[permissions.rules]]\ndecision = 'allow'\nkind = 'execute'\n")
    session = live.new(args=("--allow-self-answers",))
    step = raw_request({"kind": "edit", "locations": [{"path": "a.txt"}]})
    assert "exit 0" in session.tell(f"{step}\n/run {answering(session)}")
    assert outcomes(session)[0] == ("allowed", "user")


def test_a_hook_of_the_user_may_answer(live: Live) -> None:
    command = f"{sys.executable} -m agh session approve $AGH_SESSION_ID"
    live.configure(f'[[hooks]]\nevent = "permission"\nmode = "async"\ncommand = "{command}"\n')
    session = live.new()
    assert answers(session.tell("/ask path=a.txt")) == ["allow_once"]


@pytest.fixture
def early(live: Live, tmp_path: Path) -> tuple[str, str]:
    """Return the options for an agent that asks for permission during session/new."""
    script = tmp_path / "early.py"
    script.write_text(EARLY_AGENT)
    return ("--command", f"{sys.executable} {script}")


def answer_of(live: Live) -> str:
    return str(json.loads((live.workspace / "answer").read_text())["result"]["outcome"].get("optionId"))


def test_a_request_before_the_first_turn_is_shown_and_answerable(live: Live, early: tuple[str, str]) -> None:
    process = live.start("session", "new", *early)
    wait_until(lambda: live.sessions() and requests(live.sessions()[0]))
    (session,) = live.sessions()
    wait_until(lambda: session.status()["phase"] == "waiting_for_permission")
    live.has_printed(process, "stderr")  # a request that is already answered is not shown
    session.agh("approve")
    out, error = process.communicate(timeout=20)
    assert (process.returncode, out.decode().strip()) == (0, session.id)
    assert b"the agent asks for permission: run: index ." in error
    assert b"the agent calls it: Index it" in error
    assert answer_of(live) == "allow_once"


def test_it_is_asked_at_the_terminal(live: Live, early: tuple[str, str]) -> None:
    with open_terminal(live, "session", "new", *early) as terminal:
        terminal.shows("allow it?")
        terminal.type("y\n")
        assert terminal.ends() == 0
    assert "run: index ." in terminal.printed
    assert answer_of(live) == "allow_once"


@pytest.mark.parametrize("command", [("session", "new", "--no-ask"), ("run", "hello", "--no-ask")])
def test_no_ask_refuses_it_at_once(live: Live, early: tuple[str, str], command: tuple[str, ...]) -> None:
    live.agh(*command, *early)
    assert answer_of(live) == "reject_once"


def test_the_time_to_start_does_not_run_out_while_it_waits(live: Live, early: tuple[str, str]) -> None:
    live.configure("[timeouts]\nnew = '0.5s'\n[permissions]\ntimeout = '2s'")
    live.agh("session", "new", *early)
    assert answer_of(live) == "reject_once"


def test_a_resume_shows_it_too(live: Live, early: tuple[str, str]) -> None:
    session = live.session(live.agh("session", "new", "--no-ask", *early).stdout.strip())
    session.stop()
    (live.workspace / "answer").unlink()
    process = session.agh("resume", "--no-ask", "--fresh")
    assert "the agent asks for permission: run: index ." in process.stderr
    assert answer_of(live) == "reject_once"
    session.stop()
    (live.workspace / "answer").unlink()
    process = session.prompt("hello", "--no-ask")
    assert "the agent asks for permission: run: index ." in process.stderr


# Precedence.


def decide_in_workspace(live: Live, own: str, theirs: str, *args: str) -> tuple[str | None, str | None]:
    """Return what becomes of an edit of a.txt with these settings of the user and of a trusted workspace."""
    live.trust("[permissions]\ntimeout = '0.2s'\n" + own)
    (live.workspace / ".agh").mkdir(exist_ok=True)
    (live.workspace / ".agh" / "config.toml").write_text(theirs)
    session = live.new(args=args)
    session.tell("/ask path=a.txt")
    return outcomes(session)[0]


ALLOW, DENY, ASK = (
    f"[[permissions.rules]]\ndecision = '{decision}'\nkind = 'edit'\n"
    for decision in ("allow", "deny", "ask")
)
ALL, NONE = (f"[permissions]\nmode = '{mode}'\n" for mode in ("approve-all", "deny-all"))


@pytest.mark.parametrize(
    ("own", "theirs", "flag", "outcome"),
    [
        ("", ALL + ALLOW, None, ("denied", "timeout")),
        ("", ALLOW, "approve-all", ("allowed", "mode")),
        (ALLOW, "", None, ("allowed", "rule")),
        (ALLOW, DENY, None, ("denied", "rule")),
        (ALLOW, ASK, None, ("denied", "timeout")),
        (DENY, ALLOW, None, ("denied", "rule")),
        ("mode = 'approve-all'\n", NONE, None, ("denied", "mode")),
        ("mode = 'deny-all'\n", ALL + ALLOW, None, ("denied", "mode")),
        ("mode = 'deny-all'\n" + ALLOW, "", None, ("allowed", "rule")),
        ("mode = 'deny-all'\n", "", "approve-all", ("allowed", "mode")),
        (ALLOW, "", "deny-all", ("denied", "mode")),
        ("", DENY, "approve-all", ("denied", "rule")),
    ],
)
def test_nothing_of_a_workspace_relaxes_anything(
    live: Live, own: str, theirs: str, flag: str | None, outcome: tuple[str, str]
) -> None:
    args = ("--permissions", flag) if flag else ()
    assert decide_in_workspace(live, own, theirs, *args) == outcome


def test_limits_hooks_and_servers_of_a_workspace_are_added(live: Live) -> None:
    live.trust(
        '[session.limits]\nmax_turns = 5\n[[hooks]]\nevent = "turn_end"\ncommand = "touch mine"\n'
        '[[mcp_servers]]\nname = "db"\ncommand = "mine"\n'
    )
    (live.workspace / ".agh").mkdir()
    (live.workspace / ".agh" / "config.toml").write_text(
        '[session.limits]\nmax_turns = 9\nmax_time = "1h"\n'
        '[[hooks]]\nevent = "turn_end"\ncommand = "touch theirs"\n'
        '[[mcp_servers]]\nname = "db"\ncommand = "theirs"\n'
        '[[mcp_servers]]\nname = "web"\ncommand = "theirs"\n'
    )
    session = live.new()
    session.tell("hello")
    servers = {server["name"]: server["command"] for server in session.meta()["mcp_servers"]}
    assert servers == {"db": "mine", "web": "theirs"}
    wait_until(lambda: {"mine", "theirs"} <= set(os.listdir(live.workspace)))
    shown_settings = json.loads(live.agh("config", "show", "session.limits", "-o", "json").stdout)["settings"]
    values = {row["key"]: row["value"] for row in shown_settings}
    assert (values["session.limits.max_turns"], values["session.limits.max_time"]) == (5, "1h")


def test_an_agent_of_a_workspace_cannot_loosen_the_mode(live: Live) -> None:
    live.trust("[permissions]\ntimeout = '0.2s'\n")
    folder = live.workspace / ".agh" / "agents"
    folder.mkdir(parents=True)
    (folder / "loose.toml").write_text(f"argv = {json.dumps(list(ECHO))}\npermissions = 'approve-all'\n")
    session = live.session(live.agh("session", "new", "--agent", "loose").stdout.strip())
    session.tell("/ask path=a.txt")
    assert outcomes(session) == [("denied", "timeout")]


def test_the_event_says_what_decided_and_in_which_order(live: Live) -> None:
    live.configure(
        "[[permissions.rules]]\ndecision = 'ask'\nkind = 'delete'\n"
        "[[permissions.rules]]\ndecision = 'deny'\nkind = 'edit'\npath = 'a.txt'\n"
    )
    session = live.new()
    session.tell("/ask path=a.txt")
    question, decision = (event.content for event in session.events("permission"))
    rule = f"deny kind='edit' path='a.txt' (rule 2 of {live.home}/config.toml)"
    assert (decision["decided_by"], decision["rule"]) == ("rule", rule)
    assert question["steps"] == [{"by": "rule", "says": rule}]
    (row,) = json.loads(session.agh("permissions", "--all", "-o", "json").stdout)["permissions"]
    assert (row["decided_by"], row["rule"]) == ("rule", rule)
    assert rule in session.agh("permissions", "--all").stdout
