"""The agent: ACP methods in, results out.

Every request is a task of the loop, so a slow one never holds up another. A method returns its result, or a
generator that returns it after some waits. Any exception becomes a JSON-RPC error.
"""

from collections.abc import Callable
from types import GeneratorType

from agh_echo import __version__, mischief, questions, restore, steps
from agh_echo.kinds import Any, Frame, Steps
from agh_echo.loop import FOREVER, Cancelled, Loop
from agh_echo.memory import Memory, default_home
from agh_echo.options import CAPS, Options
from agh_echo.session import Session
from agh_echo.turn import Turn
from agh_echo.wire import Failure, Wire

STEPS = steps.STEPS | questions.STEPS | mischief.STEPS
LOGIN = {"id": "echo-login", "name": "Echo log-in", "description": "Calling authenticate is enough."}


class Agent:
    """One agent process: its options, its live sessions, and a method `on_…` for each ACP method."""

    def __init__(self, options: Options, wire: Wire) -> None:
        self.options = options
        self.loop = Loop(wire)
        self.memory = Memory(options.state or default_home())
        self.live: dict[str, Session] = {}
        self.logged_in = not options.auth_required
        self.offers_switches = False  # the client can show boolean options

    def serve(self) -> None:
        self.loop.run(self.handle)

    def handle(self, frame: Frame) -> None:
        """Start answering a request, or act on a notification."""
        method, params = frame["method"], frame.get("params")
        params = params if isinstance(params, dict) else {}
        if "id" in frame:
            self.loop.start(self.answer(frame["id"], method, params), key=frame["id"])
        elif method == "session/cancel":
            self._cancel(self.live.get(str(params.get("sessionId"))))
        elif method == "$/cancel_request":
            for task in [task for task in self.loop.tasks if task.key == params.get("requestId")]:
                self.loop.cancel(task)

    def answer(self, request_id: object, method: str, params: Frame) -> Steps:
        """Call the method and send its result, or the error it ended with."""
        reply: Frame
        try:
            result = self._find_method(method)(params)
            if isinstance(result, GeneratorType):
                result = yield from result
            reply = {"result": result}
        except Failure as failure:
            reply = {"error": failure.error}
        except Cancelled:
            reply = {"error": {"code": -32800, "message": "Request cancelled"}}
        except Exception as error:
            reply = {"error": {"code": -32603, "message": f"Internal error: {error!r}"}}
        self.loop.wire.send({"id": request_id, **reply})

    def on_initialize(self, params: Frame) -> Steps:
        path = ("clientCapabilities", "session", "configOptions", "boolean")
        self.offers_switches = self.options.switch and _has(params, *path)
        yield FOREVER if self.options.init_hang else self.options.init_delay
        return {
            "protocolVersion": 1,
            "agentInfo": {"name": "agh-echo", "title": "Echo", "version": __version__},
            "agentCapabilities": {
                "loadSession": "load" in self.options.caps,
                "promptCapabilities": {"image": True, "audio": False, "embeddedContext": True},
                "sessionCapabilities": {cap: {} for cap in self.options.caps if cap != "load"}
                | ({"systemPrompt": {"mode": {"override": {}}}} if self.options.system_prompt else {}),
            },
            "authMethods": [LOGIN] if self.options.auth_required else [],
        }

    def on_authenticate(self, params: Frame) -> Frame:
        if need(params, "methodId") != LOGIN["id"]:
            raise Failure(-32602, f"Invalid params: no auth method {params['methodId']}")
        self.logged_in = True
        return {}

    def on_session_new(self, params: Frame) -> Frame:
        need(params, "mcpServers", list)
        return self._create(params, [])

    def on_session_load(self, params: Frame) -> Steps:
        need(params, "mcpServers", list)
        return self._restore(params, self.options.on_load, replays=True)

    def on_session_resume(self, params: Frame) -> Steps:
        return self._restore(params, self.options.on_resume, replays=False)

    def on_session_fork(self, params: Frame) -> Frame:
        records = self._read_stored(need(params, "sessionId"))[1:]
        return self._create(params, _up_to(records, _fork_point(params)))

    def on_session_list(self, params: Frame) -> Frame:
        outcomes = (self.options.on_load, self.options.on_resume)
        sessions = [info for info in self.memory.list() if params.get("cwd") in (None, info["cwd"])]
        if "unclear-missing" in outcomes:
            sessions = [info for info in sessions if info["sessionId"] in self.live]
        start, size = int(params.get("cursor") or 0), int(self.options.page) or len(sessions)
        more = {"nextCursor": str(start + size)} if start + size < len(sessions) else {}
        return {"sessions": sessions[start : start + size]} | more

    def on_session_close(self, params: Frame) -> Frame:
        session = self._find_session(params)
        del self.live[session.id]
        self._cancel(session)
        return {}

    def on_session_delete(self, params: Frame) -> Frame:
        """Delete a session. As the protocol has it, one that does not exist counts as deleted."""
        session_id = need(params, "sessionId")
        if self.memory.has(session_id):
            self.memory.delete(session_id)
        if session := self.live.pop(session_id, None):
            session.is_stored = False
            self._cancel(session)
        return {}

    def on_session_prompt(self, params: Frame) -> Steps:
        session = self._find_session(params)
        self._check_idle(session)
        task = self.loop.current
        assert task is not None, "a method runs inside a task"
        text = "\n".join(_text(block) for block in need(params, "prompt", list))
        session.turn = task
        try:
            return (yield from Turn(self.loop, task, session, self.options, STEPS).run(text))
        finally:
            session.turn = None

    def on_session_set_mode(self, params: Frame) -> Frame:
        self._find_session(params).set("mode", need(params, "modeId"))
        return {}

    def on__echo_mirror(self, params: Frame) -> Frame:
        """Answer a request that is not of the protocol with its own parameters."""
        return {"mirrored": params}

    def on_session_set_model(self, params: Frame) -> Frame:
        self._find_session(params).set("model", need(params, "modelId"))
        return {}

    def on_session_set_config_option(self, params: Frame) -> Frame:
        session = self._find_session(params)
        if need(params, "configId") == "brief" and session.has_switches:
            session.brief = need(params, "value", bool)
        elif params["configId"] != "model":
            raise Failure(-32602, f"Invalid params: no option {params['configId']!r}; there is model")
        else:
            session.set("model", need(params, "value"))
        return {"configOptions": session.settings()["configOptions"]}

    def _cancel(self, session: Session | None) -> None:
        if session and session.turn:
            self.loop.cancel(session.turn)

    def _create(self, params: Frame, records: list[Frame]) -> Frame:
        self._check_access(params)
        session_id = self.memory.create(params["cwd"], records)
        self.live[session_id] = Session(self.memory, session_id, params, records, self.offers_switches)
        return {"sessionId": session_id} | self.live[session_id].settings()

    def _restore(self, params: Frame, outcome: str, replays: bool) -> Steps:
        self._check_access(params)
        session_id = need(params, "sessionId")
        yield from restore.fail(self.loop, outcome, session_id)
        if session_id in self.live:
            self._check_idle(self.live[session_id])
        records = [] if outcome == "empty" else self._read_stored(session_id)
        session = Session(self.memory, session_id, params, records, self.offers_switches)
        self.live[session_id] = session
        session.is_stored = outcome != "empty"
        restore.replay(self.loop, session, outcome, replays)
        return None if outcome == "null" else session.settings()

    def _check_access(self, params: Frame) -> None:
        if not self.logged_in:
            raise Failure(-32000, "Authentication required", {"authMethods": [LOGIN]})
        if not need(params, "cwd").startswith("/"):
            raise Failure(-32602, "Invalid params: cwd must be absolute")

    def _check_idle(self, session: Session) -> None:
        if session.turn:
            raise Failure(-32600, "Invalid request: a turn of this session is running")

    def _read_stored(self, session_id: str) -> list[Frame]:
        if not self.memory.has(session_id):
            raise restore.unknown_session(session_id)
        return self.memory.read(session_id)

    def _find_session(self, params: Frame) -> Session:
        session_id = need(params, "sessionId")
        if session_id not in self.live:
            raise restore.unknown_session(session_id)
        return self.live[session_id]

    def _find_method(self, name: str) -> Callable[[Frame], Any]:
        """Return the function for a method, on_session_new for `session/new`. Refuse an unadvertised one."""
        cap = name.removeprefix("session/")
        method: Callable[[Frame], Any] | None = getattr(self, f"on_{name.replace('/', '_')}", None)
        if method is None or (cap in CAPS and cap not in self.options.caps):
            raise Failure(-32601, f"Method not found: {name}")
        return method


def need(params: Frame, name: str, kind: type = str) -> Any:
    """Return a parameter. Raise Failure if it is missing or not of this type."""
    if not isinstance(params.get(name), kind):
        raise Failure(-32602, f"Invalid params: {name} is missing or not a {kind.__name__}")
    return params[name]


def _fork_point(params: Frame) -> str | None:
    """Return the id of the message to fork at, which some clients name in `_meta`."""
    value: Any = params.get("_meta")
    for name in ("jetbrains", "air", "fork", "messageId"):
        value = value.get(name) if isinstance(value, dict) else None
    return value if isinstance(value, str) else None


def _up_to(records: list[Frame], message_id: str | None) -> list[Frame]:
    """Return the records up to a message, or all of them. Raise Failure if there is no such message."""
    if message_id is None:
        return records
    numbers = [number for number, record in enumerate(records) if record.get("id") == message_id]
    if not numbers:
        raise Failure(-32602, f"Invalid params: no message {message_id}")
    return records[: numbers[-1] + 1]


def _has(params: Frame, *names: str) -> bool:
    """Tell whether there is a value at this path of objects."""
    value: Any = params
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value is not None


def _text(block: Frame) -> str:
    """Return a content block as text. What is not text is named, never run."""
    kind = block.get("type")
    if kind == "text":
        return str(block["text"])
    source = block.get("uri") or block.get("resource", {}).get("uri") or block.get("mimeType") or ""
    return f"[{kind} {source}]"
