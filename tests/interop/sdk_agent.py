"""A real agent, built on the official SDK: `python sdk_agent.py STATE_DIR`

A prompt is a script. Each line is a step: a word, then its arguments as a JSON object. What comes of a step
is said as one line of JSON, `{"step":…,"result":…}` or `{"step":…,"error":{"code":…,"message":…}}`.

STATE_DIR holds one file per conversation, `settings.json` (what this agent offers and how it fails, read at
its start) and `wire.jsonl` (every message that the SDK received or sent; an empty line at each start).
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pydantic

# The SDK's models are built when they are first used, and without the texts in their sources: it starts in
# half the time, and they read and write the same.
pydantic.BaseModel.model_config["defer_build"] = True
with suppress(ImportError):
    from pydantic._internal import _fields

    _fields.extract_docstrings_from_cls = lambda *_, **__: {}

import acp  # noqa: E402
from acp import schema  # noqa: E402
from acp.connection import StreamDirection, StreamEvent  # noqa: E402

Result = Any
HISTORY = "=== CURRENT REQUEST ===\n", "\n\n=== INSTRUCTIONS ==="
OPTIONS: dict[str, schema.PermissionOption] = {
    kind: schema.PermissionOption(option_id=f"the-{kind}", name=kind.replace("_", " "), kind=kind)
    for kind in ("allow_once", "allow_always", "reject_once", "reject_always")
}


class Conversation:
    """What was said, in a file that outlives the process."""

    def __init__(self, state: Path, session_id: str) -> None:
        self.session_id = session_id
        self._file = state / f"{session_id}.json"
        self.stored: dict[str, Any] = {"cwd": "", "mode": "ask", "model": "small", "said": []}
        if self._file.exists():
            self.stored = json.loads(self._file.read_text())

    def say(self, who: str, text: str) -> None:
        self.stored["said"].append([who, text])
        self.save()

    def save(self) -> None:
        self._file.write_text(json.dumps(self.stored))


class Agent:
    """The SDK's Agent interface. `client` is the other side: agh."""

    client: Any

    def __init__(self, state: Path) -> None:
        self.state = state
        settings = state / "settings.json"
        self.settings: dict[str, Any] = json.loads(settings.read_text()) if settings.exists() else {}
        self.open: dict[str, Conversation] = {}
        self.cancelled = asyncio.Event()
        self.terminal_id = ""
        self.tools = 0

    def on_connect(self, conn: Any) -> None:
        self.client = conn

    def offers(self, name: str) -> bool:
        return name not in self.settings.get("without", ())

    async def initialize(self, protocol_version: int, **_: Any) -> schema.InitializeResponse:
        session = schema.SessionCapabilities(
            list=schema.SessionListCapabilities(),
            fork=schema.SessionForkCapabilities(),
            close=schema.SessionCloseCapabilities(),
            resume=schema.SessionResumeCapabilities() if self.offers("resume") else None,
        )
        return schema.InitializeResponse(
            protocol_version=self.settings.get("protocol", protocol_version),
            agent_capabilities=schema.AgentCapabilities(
                load_session=self.offers("load"), session_capabilities=session
            ),
            agent_info=schema.Implementation(name="sdk-agent", version="1"),
            auth_methods=[schema.AuthMethodAgent(id="key", name="A key")] if "login" in self.settings else [],
        )

    async def authenticate(self, method_id: str, **_: Any) -> schema.AuthenticateResponse:
        self.settings.pop("login", None)
        return schema.AuthenticateResponse()

    async def new_session(self, cwd: str, **_: Any) -> schema.NewSessionResponse:
        if "login" in self.settings:
            raise acp.RequestError.auth_required()
        conversation = Conversation(self.state, f"sdk-{uuid4()}")
        self.open[conversation.session_id] = conversation
        self.change(conversation.session_id, cwd=cwd)
        return schema.NewSessionResponse(
            session_id=conversation.session_id,
            modes=modes(conversation),
            config_options=options(conversation),
        )

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> schema.LoadSessionResponse:
        found = self.found(session_id)
        for who, text in found.stored["said"]:
            told = acp.update_user_message_text if who == "user" else acp.update_agent_message_text
            await self.client.session_update(session_id, told(text))
        return schema.LoadSessionResponse(**self.offer(found))

    async def resume_session(self, session_id: str, cwd: str, **_: Any) -> schema.ResumeSessionResponse:
        return schema.ResumeSessionResponse(**self.offer(self.found(session_id)))

    async def fork_session(self, session_id: str, cwd: str, **_: Any) -> schema.ForkSessionResponse:
        conversation = Conversation(self.state, f"sdk-{uuid4()}")
        conversation.stored = {**self.found(session_id).stored, "cwd": cwd}
        conversation.save()
        self.open[conversation.session_id] = conversation
        return schema.ForkSessionResponse(session_id=conversation.session_id, **self.offer(conversation))

    async def list_sessions(
        self, cwd: str | None = None, cursor: str | None = None, **_: Any
    ) -> schema.ListSessionsResponse:
        """Return one session per page, so that the client must turn pages."""
        every = sorted(self.state.glob("sdk-*.json"))
        stored = [(file.stem, json.loads(file.read_text())["cwd"]) for file in every]
        fitting = [
            schema.SessionInfo(session_id=name, cwd=place) for name, place in stored if cwd in (None, place)
        ]
        page = int(cursor or 0)
        more = str(page + 1) if page + 1 < len(fitting) else None
        return schema.ListSessionsResponse(sessions=fitting[page : page + 1], next_cursor=more)

    async def close_session(self, session_id: str, **_: Any) -> schema.CloseSessionResponse:
        self.open.pop(session_id, None)
        return schema.CloseSessionResponse()

    async def set_session_mode(
        self, session_id: str, mode_id: str, **_: Any
    ) -> schema.SetSessionModeResponse:
        self.change(session_id, mode=mode_id)
        await self.client.session_update(
            session_id,
            schema.CurrentModeUpdate(session_update="current_mode_update", current_mode_id=mode_id),
        )
        return schema.SetSessionModeResponse()

    async def set_config_option(
        self, config_id: str, session_id: str, value: str | bool, **_: Any
    ) -> schema.SetSessionConfigOptionResponse:
        self.change(session_id, **{config_id: value})
        return schema.SetSessionConfigOptionResponse(config_options=options(self.open[session_id]))

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        return {"method": method, "params": params}

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        pass

    async def cancel(self, session_id: str, **_: Any) -> None:
        self.cancelled.set()

    async def prompt(self, session_id: str, prompt: list[Any], **_: Any) -> schema.PromptResponse:
        self.cancelled.clear()
        text = "\n".join(block.text for block in prompt if block.type == "text")
        conversation = self.open[session_id]
        conversation.say("user", text)
        usage = None
        for line in script(text):
            word, _blank, given = line.partition(" ")
            args = json.loads(given) if given else {}
            if word == "usage":
                usage = schema.Usage(**args)
                continue
            if word == "stop":
                return schema.PromptResponse(stop_reason=args["reason"])
            await self.take(conversation, word, args)
            if self.cancelled.is_set():
                return schema.PromptResponse(stop_reason="cancelled")
        return schema.PromptResponse(stop_reason="end_turn", usage=usage)

    async def take(self, conversation: Conversation, word: str, args: dict[str, Any]) -> None:
        step: Callable[..., Awaitable[Result]] = getattr(self, f"step_{word}")
        try:
            outcome = {"result": await step(conversation, **args)}
        except acp.RequestError as error:
            outcome = {"error": {"code": error.code, "message": str(error)}}
        if outcome != {"result": None}:
            text = json.dumps({"step": word, **outcome}) + "\n"
            conversation.say("agent", text)
            await self.tell(conversation, acp.update_agent_message_text(text))

    async def tell(self, conversation: Conversation, update: Any) -> None:
        await self.client.session_update(conversation.session_id, update)

    def found(self, session_id: str) -> Conversation:
        if "vague" in self.settings:
            raise acp.RequestError.internal_error({"details": "something went wrong"})
        if not (self.state / f"{session_id}.json").exists():
            raise acp.RequestError.resource_not_found(session_id)
        return self.open.setdefault(session_id, Conversation(self.state, session_id))

    def offer(self, conversation: Conversation) -> dict[str, Any]:
        """Return what can be chosen; an agent need not repeat it when a session is loaded."""
        if "terse" in self.settings:
            return {}
        return {"modes": modes(conversation), "config_options": options(conversation)}

    def change(self, session_id: str, **changes: Any) -> None:
        self.open[session_id].stored |= changes
        self.open[session_id].save()

    # What a prompt may ask for.

    async def step_echo(self, conversation: Conversation, text: str) -> Result:
        return text

    async def step_recall(self, conversation: Conversation) -> Result:
        """Return the first line of each prompt so far, but this one."""
        return [text.partition("\n")[0] for who, text in conversation.stored["said"] if who == "user"][:-1]

    async def step_think(self, conversation: Conversation, text: str) -> Result:
        await self.tell(conversation, acp.update_agent_thought_text(text))

    async def step_plan(self, conversation: Conversation, entries: list[str]) -> Result:
        await self.tell(conversation, acp.update_plan([acp.plan_entry(entry) for entry in entries]))

    async def step_context(self, conversation: Conversation, used: int, size: int, cost: float) -> Result:
        spent = schema.Cost(amount=cost, currency="USD")
        update = schema.UsageUpdate(session_update="usage_update", used=used, size=size, cost=spent)
        await self.tell(conversation, update)

    async def step_title(self, conversation: Conversation, title: str) -> Result:
        await self.tell(
            conversation, schema.SessionInfoUpdate(session_update="session_info_update", title=title)
        )

    async def step_edit(self, conversation: Conversation, path: str, old: str, new: str) -> Result:
        """Report a tool call from its start to its end, with a diff."""
        self.tools += 1
        call, where = f"call-{self.tools}", [schema.ToolCallLocation(path=path, line=1)]
        diff = [acp.tool_diff_content(path, new, old)]
        begin = acp.start_tool_call(
            call, f"Edit {path}", kind="edit", status="pending", locations=where, raw_input={"path": path}
        )
        for update in (
            begin,
            acp.update_tool_call(call, status="in_progress", content=diff),
            acp.update_tool_call(
                call, status="completed", content=diff, locations=where, raw_output={"stdout": "1 change"}
            ),
        ):
            await self.tell(conversation, update)

    async def step_fail(self, conversation: Conversation, text: str) -> Result:
        self.tools += 1
        call = f"call-{self.tools}"
        await self.tell(
            conversation, acp.start_tool_call(call, "Search", kind="search", status="in_progress")
        )
        content = [acp.tool_content(acp.text_block(text))]
        await self.tell(conversation, acp.update_tool_call(call, status="failed", content=content))

    async def step_ask(
        self,
        conversation: Conversation,
        kind: Any,
        offer: tuple[str, ...] = ("allow_once", "allow_always", "reject_once"),
        **raw_input: Any,
    ) -> Result:
        """`session/request_permission`; the result is the option chosen, or None-like "cancelled"."""
        self.tools += 1
        where = [schema.ToolCallLocation(path=raw_input["path"])] if "path" in raw_input else None
        call = schema.ToolCallUpdate(
            tool_call_id=f"call-{self.tools}",
            title=f"{kind} something",
            kind=kind,
            status="pending",
            locations=where,
            raw_input=raw_input,
        )
        answer = await self.client.request_permission(
            conversation.session_id, call, [OPTIONS[one] for one in offer]
        )
        outcome = answer.outcome
        return outcome.option_id if outcome.outcome == "selected" else outcome.outcome

    async def step_withdraw(self, conversation: Conversation) -> Result:
        """Ask, and then say that the answer is no longer wanted."""
        number = self.client._conn._next_request_id
        asking = asyncio.ensure_future(self.step_ask(conversation, "edit"))
        while self.client._conn._next_request_id == number:
            await asyncio.sleep(0)
        await self.client._conn.send_notification("$/cancel_request", {"requestId": number})
        return await asking

    async def step_read(self, conversation: Conversation, path: str, **window: int) -> Result:
        answer = await self.client.read_text_file(conversation.session_id, path, **window)
        return answer.content

    async def step_write(self, conversation: Conversation, path: str, content: str) -> Result:
        answer = await self.client.write_text_file(conversation.session_id, path, content)
        return answer.model_dump(exclude_none=True)

    async def step_create(
        self, conversation: Conversation, command: str, env: dict[str, str] | None = None, **more: Any
    ) -> Result:
        variables = [schema.EnvVariable(name=name, value=value) for name, value in (env or {}).items()]
        answer = await self.client.create_terminal(
            conversation.session_id, command, env=variables or None, **more
        )
        self.terminal_id = answer.terminal_id
        return self.terminal_id

    async def step_output(self, conversation: Conversation, contains: str = "") -> Result:
        """Return the terminal's output, once it contains a text."""
        while True:
            answer = await self.client.terminal_output(conversation.session_id, self.terminal_id)
            if contains in answer.output:
                return answer.model_dump(by_alias=True, exclude_none=True)
            await asyncio.sleep(0.01)

    async def step_wait(self, conversation: Conversation) -> Result:
        answer = await self.client.wait_for_terminal_exit(conversation.session_id, self.terminal_id)
        return answer.model_dump(by_alias=True, exclude={"field_meta"})

    async def step_kill(self, conversation: Conversation) -> Result:
        """Kill it while another request waits for its exit; the result is what that one was told."""
        waiting = asyncio.ensure_future(self.step_wait(conversation))
        await asyncio.sleep(0)
        await self.client.kill_terminal(conversation.session_id, self.terminal_id)
        return await waiting

    async def step_release(self, conversation: Conversation) -> Result:
        answer = await self.client.release_terminal(conversation.session_id, self.terminal_id)
        return answer.model_dump(exclude_none=True)

    async def step_elicit(self, conversation: Conversation) -> Result:
        form = schema.ElicitationSchema(
            properties={"name": schema.ElicitationStringPropertySchema(type="string")}
        )
        mode = schema.ElicitationFormSessionMode(session_id=conversation.session_id, requested_schema=form)
        answer = await self.client.create_elicitation("Your name?", mode)
        return answer.action

    async def step_extension(self, conversation: Conversation, method: str) -> Result:
        await self.client.ext_notification(method, {"a": 1})
        return await self.client.ext_method(method, {"a": 1})

    async def step_request(self, conversation: Conversation, method: str, params: Any) -> Result:
        """Any request, past the SDK's own checks."""
        return await self.client._conn.send_request(method, params)

    async def step_notify(self, conversation: Conversation, method: str, params: Any) -> Result:
        """Any notification, past the SDK's own checks."""
        await self.client._conn.send_notification(method, params)

    async def step_slow(self, conversation: Conversation, then_ask: bool = False) -> Result:
        """Work until cancelled; some agents come with one more question even then."""
        await self.tell(conversation, acp.update_agent_message_text("working\n"))
        await self.cancelled.wait()
        return await self.step_ask(conversation, "edit") if then_ask else None


def script(text: str) -> list[str]:
    """Return the steps in a prompt; agh may have put the history of the session around them."""
    begin, end = HISTORY
    if begin in text:
        text = text.partition(begin)[2].partition(end)[0]
    return [line for line in text.splitlines() if line]


def modes(conversation: Conversation) -> schema.SessionModeState:
    available = [schema.SessionMode(id=name, name=name.title()) for name in ("ask", "code")]
    return schema.SessionModeState(current_mode_id=conversation.stored["mode"], available_modes=available)


def options(conversation: Conversation) -> list[Any]:
    models = [schema.SessionConfigSelectOption(value=name, name=name) for name in ("small", "large")]
    return [
        schema.SessionConfigOptionSelect(
            type="select",
            id="model",
            name="Model",
            current_value=conversation.stored["model"],
            options=models,
        )
    ]


async def main(state: Path) -> None:
    with (state / "wire.jsonl").open("a") as wire:

        def record(event: StreamEvent) -> None:
            came = event.direction is StreamDirection.INCOMING
            wire.write(json.dumps({"came": came, "message": event.message}) + "\n")
            wire.flush()

        wire.write("\n")

        await acp.run_agent(Agent(state), use_unstable_protocol=True, observers=[record])


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
