"""Eighteen behaviours of a product, each tried through the program `agh` on the stand-in model.

A check returns a remark, usually empty, if the behaviour is right. It raises `ProductFault` when the frames,
or what the model was sent, show that the product is the cause. Whatever else goes wrong is agh's fault.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.real_agents.standin import Asked, Standin
from tests.real_agents.steps import SLOW, kill_keeper, tellings
from tests.real_agents.tap import Frame, read_frames
from tests.support.live import Live, Session
from tests.support.processes import carrying, children_of, kill
from tests.support.wait import wait_until

COMMAND = "printf result-%s 42"  # what it prints is no part of it
START_LIMIT = 60.0
TURN_LIMIT = 40.0
SOON = 8.0  # for what an agent sends by itself, after a turn or beside it
# In its usual mode Codex lets a model decide, and vibe does not ask about files.
OPTIONS = {"codex": ("--mode", "read-only"), "vibe": ("--mode", "ask")}
ASKS_IN = {"codex": "collaboration_mode=plan"}  # else its tool for questions is off
ASKS_AT_MOST = 4  # some ask again for the same act


class ProductFault(Exception):
    """The product is the cause; the text says in a few words what it does."""


class Result(NamedTuple):
    """How a behaviour went: "ok", "product" or "agh", and a few words if there is something to say."""

    status: str
    remark: str = ""


class Trial:
    """One product under test: a home, its main session, and what passed between agh and the agent."""

    def __init__(self, live: Live, standin: Standin, agent: str, log: Path) -> None:
        self.live, self.standin, self.agent, self.log = live, standin, agent, log
        self.words = (f"word{number}" for number in range(100, 1000))
        self.last_words: list[str] = []
        self.session = None  # type: Session | None
        self.mark = 0

    @property
    def main(self) -> Session:
        if self.session is None:
            options = OPTIONS.get(self.agent, ())
            result = self.live.agh("session", "new", "--agent", self.agent, *options, timeout=START_LIMIT)
            self.session = self.live.session(result.stdout.strip())
        return self.session

    def frames(self, sender: str = "agent") -> list[Frame]:
        """Return what was sent since the check began."""
        return [frame for frame in read_frames(self.log)[self.mark :] if frame.sender == sender]

    def updates(self, kind: str) -> list[dict[str, Any]]:
        """Return these updates since the first start."""
        return [frame.message["params"]["update"] for frame in read_frames(self.log) if frame.update == kind]

    def word(self) -> str:
        """Return a word that no prompt had yet, to find its turn in the model's requests."""
        word = next(self.words)
        self.last_words.append(word)
        return word

    def requests(self, word: str) -> list[Asked]:
        return self.standin.conversation(word)

    def send(self, text: str, *args: object) -> str:
        """Send a prompt; return the id of its turn, which runs."""
        return self.main.prompt(text, "--detach", *args, timeout=START_LIMIT).stdout.strip()

    def say(self, *args: object) -> Asked:
        """Send a prompt, see it answered, and return what the model was sent."""
        word = self.word()
        turn = self.main.turn(word, *args, "--timeout", f"{TURN_LIMIT:g}s", timeout=START_LIMIT + TURN_LIMIT)
        text = self.main.text(turn["turn_id"])
        assert "SEEN" in text, f"answered {text[:60]!r}"
        return self.requests(word)[-1]

    def begin_slow(self) -> str:
        """Start a turn, and return its word when some of the answer has arrived."""
        word = self.word()
        turn_id = self.send(f"{word} {SLOW}")
        wait_until(lambda: "begun" in self.main.text(turn_id), TURN_LIMIT, what="some of the answer")
        return word

    def wait_for_request(self, turn_id: str) -> bool:
        """Wait until a permission request is pending, or the turn has ended; tell which."""
        wait_until(lambda: self.is_waiting() or self.main.has_ended(turn_id), TURN_LIMIT, what="a request")
        return self.is_waiting()

    def is_waiting(self) -> bool:
        return bool(self.main.fetch("SELECT 1 FROM permissions WHERE status = 'pending'"))

    def decide(self, verb: str, turn_id: str) -> None:
        """Answer each request of the turn, until it has ended."""
        for _ in range(ASKS_AT_MOST):
            if not self.wait_for_request(turn_id):
                return
            self.answer(verb)
        wait_until(lambda: self.main.has_ended(turn_id), TURN_LIMIT, what="the end of the turn")

    def answer(self, verb: str) -> None:
        """Answer the pending request, and see that it no longer waits."""
        ((request_id,),) = self.main.fetch("SELECT request_id FROM permissions WHERE status = 'pending'")
        self.main.agh(verb, request_id)
        pending = "SELECT 1 FROM permissions WHERE status = 'pending' AND request_id = ?"
        wait_until(lambda: not self.main.fetch(pending, request_id), TURN_LIMIT)

    def stop(self) -> None:
        cookie = self.main.cookie
        self.main.agh("stop", timeout=START_LIMIT)
        assert carrying(cookie) == [], "processes are left"

    def calm(self) -> None:
        """Let nothing of a failed check reach the next one."""
        if self.session and self.session.is_live() and self.session.status()["phase"] != "idle":
            self.session.agh("stop", code=None, timeout=START_LIMIT)


def check_answer(trial: Trial) -> str:
    word = trial.word()
    turn_id = trial.send(f"{word} [slow 2]")
    wait_until(lambda: "begun" in trial.main.text(turn_id), TURN_LIMIT, what="some of the answer")
    streamed = not trial.main.has_ended(turn_id)
    wait_until(lambda: trial.main.has_ended(turn_id), TURN_LIMIT, what="the end of the turn")
    assert f'"{word}' in trial.main.text(turn_id).replace("\n", " "), "the answer is not whole"
    if not streamed:
        raise ProductFault("sends the answer only when it is whole")
    return ""


def check_tokens(trial: Trial) -> str:
    trial.say()
    if _soon(lambda: trial.main.fetch("SELECT turn_id FROM token_usage")):
        return ""
    if not any(_mentions(frame, "token", "usage") for frame in trial.frames()):
        raise ProductFault("sends no token counts")
    raise AssertionError("the agent sent its usage; agh stored none")


def check_commands(trial: Trial) -> str:
    def listed() -> list[Any]:
        rows: list[Any] = json.loads(trial.main.agh("commands", "-o", "json").stdout)["commands"]
        return rows

    if _soon(listed):
        return ""
    if not any(update.get("availableCommands") for update in trial.updates("available_commands_update")):
        raise ProductFault("sends no commands")
    raise AssertionError("the agent sent commands; agh lists none")


def check_model(trial: Trial) -> str:
    status = trial.main.status()
    current = {key: value for key, value in (status["current"] or {}).items() if value}
    results = [frame.message["result"] for frame in read_frames(trial.log) if _opens(frame)]
    offers = [key for result in results for key in ("models", "modes", "configOptions") if result.get(key)]
    if not offers:
        raise ProductFault("offers neither models nor modes")
    assert current, f"the agent sent {offers}; status shows none"
    return "" if "model" in current else "mode only"


def check_tool_name(trial: Trial) -> str:
    word = trial.word()
    turn_id = trial.send(f"{word} [run {COMMAND}]")
    trial.decide("approve", turn_id)
    tool = next(request.tool for request in trial.requests(word) if request.tool)
    calls = trial.main.events("tool_call", "tool_result", turn=turn_id)
    names = {str(event.content.get("tool_name")) for event in calls}
    if any(_is_tool(name, tool) for name in names):
        return ""
    if not calls:
        assert not any(frame.update == "tool_call" for frame in trial.frames()), "no tool call is stored"
        raise ProductFault("sends no tool call")
    named = [frame for frame in trial.frames() if "tool" in frame.update and _names(frame.message, tool)]
    assert not named, f"agh stored {sorted(names)} for {tool}"
    raise ProductFault(f"sends no name for {tool}, only a title and a kind")


def check_output(trial: Trial) -> str:
    turn_id = trial.send(f"{trial.word()} [run {COMMAND}]")
    trial.decide("approve", turn_id)
    results = trial.main.events("tool_result", turn=turn_id)
    if any("result-42" in json.dumps(event.content) for event in results):
        return ""
    sent = [frame for frame in trial.frames() if "tool" in frame.update and _mentions(frame, "result-42")]
    assert not sent, "the agent sent the output; agh stored none"
    assert not any(frame.method == "terminal/create" for frame in trial.frames()), (
        "agh ran it and lost the output"
    )
    raise ProductFault("does not send the output")


def check_permission(trial: Trial) -> str:
    path = trial.live.workspace / "subject.txt"
    turn_id = trial.send(f"{trial.word()} [write {path} written]")
    if not trial.wait_for_request(turn_id):
        asked = any(frame.method == "session/request_permission" for frame in trial.frames())
        assert not asked, "the request is gone"
        raise ProductFault("does not ask")
    listing = trial.main.agh("permissions").stdout
    trial.decide("deny", turn_id)
    if path.name in listing:
        return ""
    told = any(
        _mentions(frame, path.name) for frame in trial.frames() if "tool" in frame.update or frame.method
    )
    assert not told, f"agh shows {listing.strip()!r}"
    raise ProductFault("does not say what it is about")


def check_approve(trial: Trial) -> str:
    path = trial.live.workspace / "approved.txt"
    turn_id = trial.send(f"{trial.word()} [write {path} written]")
    trial.decide("approve", turn_id)
    if path.exists() and path.read_text().rstrip("\n") == "written":
        return ""
    allowed = trial.main.fetch("SELECT 1 FROM permissions WHERE decision = 'allowed'")
    if not allowed:
        raise ProductFault("does not ask, and does not write")
    raise AssertionError(f"no file; {_last_failure(trial)}")


def check_deny(trial: Trial) -> str:
    path = trial.live.workspace / "denied.txt"
    turn_id = trial.send(f"{trial.word()} [write {path} written]")
    if not trial.wait_for_request(turn_id) and path.exists():
        raise ProductFault("does not ask")
    trial.decide("deny", turn_id)
    assert not path.exists(), "the file was written"
    trial.say()
    return ""


def check_cancel(trial: Trial) -> str:
    before = trial.begin_slow()
    turn_id = trial.main.events("user_message")[-1].turn_id
    trial.main.agh("cancel")
    wait_until(lambda: trial.main.has_ended(turn_id), TURN_LIMIT, what="the end of the turn")
    (end,) = trial.main.events("done", "error", turn=turn_id)
    answered = any("stopReason" in (frame.message.get("result") or {}) for frame in trial.frames())
    texts = trial.say().texts
    if not answered:
        raise ProductFault("does not answer a cancel while the model is silent; agh restarts the agent")
    assert end.content["stop_reason"] == "cancelled", end.content["stop_reason"]
    return "" if any(before in text for text in texts) else "it forgets the cancelled prompt"


def check_attachment(trial: Trial) -> str:
    path = trial.live.workspace / "notes.txt"
    path.write_text("the word is sesame-1729\n")
    request = trial.say("--attach", path)
    body = json.dumps(request.body)
    if "sesame-1729" in body:
        return ""
    sent = next(
        json.dumps(frame.message) for frame in trial.frames("agh") if frame.method == "session/prompt"
    )
    assert path.name in sent, "agh did not send it"
    if path.name in body:
        return "as a link"
    raise ProductFault("drops it")


def check_key(trial: Trial) -> str:
    """A model that refuses the key: exit 9, with the command that logs in. Some remember it."""
    trial.session = None
    assert trial.main.is_live()
    trial.mark = len(read_frames(trial.log))
    text = f"{trial.word()} [fail 401]"
    result = trial.main.prompt(
        text, "--timeout", f"{TURN_LIMIT:g}s", code=None, timeout=START_LIMIT + TURN_LIMIT
    )
    if result.returncode == 9:
        assert f"agh agent login {trial.agent}" in result.stderr or "login" in result.stderr, result.stderr
        return ""
    told = [
        json.dumps(frame.message)
        for frame in trial.frames()
        if "error" in frame.message
        or (not frame.update.endswith("_chunk") and _mentions(frame, "api key", "api-key", "unauth"))
    ]
    if not told:
        silent = not any(frame.update == "agent_message_chunk" for frame in trial.frames())
        raise ProductFault(
            "hides the refusal" if silent else "reports the refusal only as an answer of the model"
        )
    raise AssertionError(f"exit {result.returncode} for {told[-1][:200]}")


def check_question(trial: Trial) -> str:
    session, word = trial.main, trial.word()
    if trial.agent in ASKS_IN:
        session.agh("set", ASKS_IN[trial.agent])
    turn_id = trial.send(f"{word} [ask colour]")

    def waits() -> bool:
        return session.status()["phase"] == "waiting_for_answer"

    for _ in range(ASKS_AT_MOST):  # some ask for a permission to ask
        wait_until(lambda: waits() or trial.is_waiting() or session.has_ended(turn_id), TURN_LIMIT)
        if not trial.is_waiting():
            break
        if _asks_by_permission(trial):
            trial.decide("deny", turn_id)
            raise ProductFault("asks with a permission request, which has no room for an answer")
        trial.answer("approve")
    if not waits():
        assert not any(frame.method == "elicitation/create" for frame in trial.frames()), (
            "the question is gone"
        )
        if _asks_by_permission(trial):
            raise ProductFault("asks with a permission request, which has no room for an answer")
        offered = any(request.tool for request in trial.requests(word))
        raise ProductFault("does not ask over ACP" if offered else "offers the model no tool for questions")
    (question,) = json.loads(session.agh("questions", "-o", "json").stdout)["questions"]
    session.agh("answer", question["request_id"], f"{question['fields'][0]['name']}=2")
    wait_until(lambda: session.has_ended(turn_id), TURN_LIMIT)
    assert "Red" in json.dumps(trial.requests(word)[-1].body), "the answer did not reach the model"
    return ""


def check_restore(trial: Trial) -> str:
    """Stop, prompt: the agent has its own memory of what was said."""
    word = trial.say().texts[-1]
    trial.stop()
    return _remembers(trial, [word])


def check_fifth(trial: Trial) -> str:
    """Stop and prompt four more times: it has its context, or agh says that it was lost and tells it."""
    words = [trial.say().texts[-1]]
    remarks = []
    for _ in range(5):
        trial.stop()
        remarks.append(_remembers(trial, words))
        words.append(trial.last_words[-1])
    losses = sum(map(bool, remarks))
    return f"it lost its context {losses} of 5 times; agh says so and sends the history" if losses else ""


def check_keeper_killed(trial: Trial) -> str:
    word, interrupted = trial.say().texts[-1], trial.begin_slow()
    kill_keeper(trial.main)
    return _remembers(trial, [word], interrupted)


def check_agent_killed(trial: Trial) -> str:
    word, interrupted = trial.say().texts[-1], trial.begin_slow()
    (program,) = children_of(trial.main.agent)  # the agent that agh started is the tap
    kill(program)
    wait_until(lambda: not trial.main.is_live(), TURN_LIMIT, what="the session ends")
    assert trial.main.meta()["stop_reason"] == "agent_crashed", trial.main.meta()["stop_reason"]
    return _remembers(trial, [word], interrupted)


def check_hand_over(trial: Trial) -> str:
    """A session of the demo agent is resumed with this product, which is told what was said."""
    result = trial.live.agh("session", "new", "--agent", "echo", timeout=START_LIMIT)
    trial.session = trial.live.session(result.stdout.strip())
    trial.main.say("the key is under the mat", timeout=START_LIMIT)
    trial.stop()
    trial.main.agh("resume", "--agent", trial.agent, timeout=START_LIMIT)
    request = trial.say()
    assert "the key is under the mat" in "\n".join(request.texts), "the history was not told"
    assert trial.main.markers() == ["context_reset"], trial.main.markers()
    trial.stop()
    return ""


BEHAVIOURS: dict[str, tuple[str, Callable[[Trial], str]]] = {
    "answer": ("it starts, and streams its answer", check_answer),
    "tokens": ("the tokens of a turn are stored", check_tokens),
    "commands": ("`agh session commands` lists its slash commands", check_commands),
    "model": ("`agh session status` shows its model, or its mode", check_model),
    "tool name": ("a tool call is stored with the tool's own name", check_tool_name),
    "output": ("what a command prints is in the `tool_result`", check_output),
    "permission": ("it asks before it writes, and agh shows which file", check_permission),
    "approve": ("after `agh session approve` the file exists", check_approve),
    "deny": ("after `agh session deny` the file is not written, and the session continues", check_deny),
    "cancel": ("`agh session cancel` ends the turn as cancelled, and the session continues", check_cancel),
    "attachment": ("the text of an attached file reaches the model", check_attachment),
    "question": ("when it asks you a question, `agh session answer` answers it", check_question),
    "restore": ("when it is stopped and prompted again, it has its context", check_restore),
    "fifth": (
        "when that happens five times, it has its context, or agh says that it is lost and sends the history",
        check_fifth,
    ),
    "keeper killed": ("after `kill -9` of the keeper during a turn, it has its context", check_keeper_killed),
    "agent killed": (
        "if it dies during a turn, agh reports that, and after a restart it has its context",
        check_agent_killed,
    ),
    "hand-over": ("it takes over a session of another agent, and gets the history", check_hand_over),
    "key": ("if its key is refused, agh exits with 9 and names the command that logs in", check_key),
}


def try_all(trial: Trial) -> Iterator[tuple[str, Result]]:
    """Yield the result of each behaviour; without a first answer there are no others."""
    for name, (_, check) in BEHAVIOURS.items():
        trial.mark = len(read_frames(trial.log))
        try:
            result = Result("ok", check(trial))
        except ProductFault as fault:
            result = Result("product", str(fault))
        except Exception as error:  # a row of the table, and a failure of the test
            result = Result("agh", f"{type(error).__name__}: {error}"[:1500])
        yield name, result
        if name == "answer" and result.status == "agh":
            return
        try:
            trial.calm()
        except Exception as error:
            yield name, Result("agh", f"does not calm down: {error}"[:500])


def _remembers(trial: Trial, words: list[str], interrupted: str = "") -> str:
    """Send a prompt; return a remark if agh had to tell the history, and said so.

    The interrupted prompt may be missing: an agent that was killed may not have written it down yet.
    """
    resets = trial.main.markers().count("context_reset")
    request = trial.say()
    text = "\n".join(request.texts)
    missing = [word for word in words if word.split()[0] not in text]
    lost = trial.main.markers().count("context_reset") > resets
    if lost:
        assert tellings(request) and not missing, "the context is lost, and the history was not told"
        return "it has lost its context; agh says so and sends the history"
    if missing:
        raise ProductFault("says that it restored the session, but has lost its context")
    return "" if interrupted in text else "it has forgotten the prompt that was interrupted"


def _asks_by_permission(trial: Trial) -> bool:
    """Tell whether the last permission request is itself the question."""
    frames = [frame for frame in trial.frames() if frame.method == "session/request_permission"]
    request = frames[-1].message["params"] if frames else {}
    labels = [option.get("name") for option in request.get("options", [])]
    return "Red" in labels or "questions" in (request.get("toolCall", {}).get("rawInput") or {})


def _soon(condition: Callable[[], Any]) -> bool:
    try:
        wait_until(condition, SOON)
    except AssertionError:
        return False
    return True


def _mentions(frame: Frame, *words: str) -> bool:
    text = json.dumps(frame.message).lower()
    return any(word in text for word in words)


def _opens(frame: Frame) -> bool:
    result = frame.message.get("result")
    return frame.sender == "agent" and isinstance(result, dict) and bool({"sessionId"} & set(result))


def _names(value: Any, tool: str, key: str = "") -> bool:
    """Tell whether a message has the tool's name, in a field that is for a name."""
    if isinstance(value, dict):
        return any(_names(field, tool, name) for name, field in value.items())
    return key.lower().endswith("name") and isinstance(value, str) and _is_tool(value, tool)


def _is_tool(name: str, tool: str) -> bool:
    return name.lower() in tool.lower() or tool.lower() in name.lower()


def _last_failure(trial: Trial) -> str:
    failures = [
        frame.message["params"]["update"]
        for frame in trial.frames()
        if frame.update == "tool_call_update" and frame.message["params"]["update"].get("status") == "failed"
    ]
    return json.dumps(failures[-1])[:400] if failures else "and no failure"
