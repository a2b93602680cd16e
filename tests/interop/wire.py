"""What agh may send to an agent, by the schema of the official SDK.

The SDK's models forgive: they drop what they do not know and replace what they cannot read. So a frame is
valid here only if the model gives back every byte of meaning that went in.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from tests.support.acp_schema import oracle
from tests.support.sdk import load_sdk

schema, meta = load_sdk("acp.schema"), load_sdk("acp.meta")

Message = dict[str, Any]

REQUESTS: dict[str, Any] = {
    "initialize": schema.InitializeRequest,
    "authenticate": schema.AuthenticateRequest,
    "session/new": schema.NewSessionRequest,
    "session/load": schema.LoadSessionRequest,
    "session/resume": schema.ResumeSessionRequest,
    "session/fork": schema.ForkSessionRequest,
    "session/list": schema.ListSessionsRequest,
    "session/close": schema.CloseSessionRequest,
    "session/delete": schema.DeleteSessionRequest,
    "session/prompt": schema.PromptRequest,
    "session/set_mode": schema.SetSessionModeRequest,
    "session/set_config_option": schema.SetSessionConfigOptionBooleanRequest
    | schema.SetSessionConfigOptionSelectRequest,
}
NOTIFICATIONS: dict[str, Any] = {
    "session/cancel": schema.CancelNotification,
    "$/cancel_request": schema.CancelRequestNotification,
}
RESULTS: dict[str, Any] = {
    "session/request_permission": schema.RequestPermissionResponse,
    "fs/read_text_file": schema.ReadTextFileResponse,
    "fs/write_text_file": schema.WriteTextFileResponse,
    "terminal/create": schema.CreateTerminalResponse,
    "terminal/output": schema.TerminalOutputResponse,
    "terminal/wait_for_exit": schema.WaitForTerminalExitResponse,
    "terminal/kill": schema.KillTerminalResponse,
    "terminal/release": schema.ReleaseTerminalResponse,
    "elicitation/create": schema.DeclineElicitationResponse,
}
NEWER = ("notices", "compaction")  # capabilities of a session; `make schema` checks them
assert {*REQUESTS, *NOTIFICATIONS} - {"$/cancel_request"} <= {*meta.AGENT_METHODS.values()}
assert {*RESULTS} <= {*meta.CLIENT_METHODS.values()}


def parse(recorded: bytes) -> list[Message]:
    """Return the messages in recorded bytes: one a line, each line ended, no key twice in an object."""
    assert not recorded or recorded.endswith(b"\n"), recorded[-200:]
    return [json.loads(line, object_pairs_hook=_no_key_twice) for line in recorded.decode().split("\n")[:-1]]


def check_all(sent: Iterable[Message], asked: Iterable[Message]) -> list[str]:
    """Check every message that was sent to an agent which asked these. The methods met, in order."""
    methods = {
        message["id"]: message["method"] for message in asked if "method" in message and "id" in message
    }
    met, numbers, answered = [], set(), set()
    for message in sent:
        assert message["jsonrpc"] == "2.0", message
        if "method" not in message:
            assert message["id"] in methods, ("an answer to nothing", message)
            assert message["id"] not in answered, ("answered twice", message)
            answered.add(message["id"])
            met.append(_check_answer(methods[message["id"]], message))
        elif "id" in message:
            assert message.keys() == {"jsonrpc", "id", "method", "params"}, message
            assert type(message["id"]) in (int, str), message
            assert message["id"] not in numbers, ("the same id twice", message)
            numbers.add(message["id"])
            _check(REQUESTS[message["method"]], message["params"])
            met.append(message["method"])
        else:
            assert message.keys() == {"jsonrpc", "method", "params"}, message
            _check(NOTIFICATIONS[message["method"]], message["params"])
            met.append(message["method"])
        _consult_oracle(message, methods)
    return met


def _consult_oracle(message: Message, methods: dict[Any, str]) -> None:
    """Check a message by the newest schema too, if `make schema` provides it."""
    judge = oracle()
    if judge is None:
        return
    if "method" in message:
        judge.check("agent", message["method"], "params", message["params"])
    elif "error" in message:
        judge.check_error(methods[message["id"]], message["error"])
    else:
        judge.check("client", methods[message["id"]], "result", message["result"])


def _check_answer(method: str, message: Message) -> str:
    if "error" in message:
        assert message.keys() == {"jsonrpc", "id", "error"}, message
        _check(schema.Error, message["error"])
        return f"{method} {message['error']['code']}"
    assert message.keys() == {"jsonrpc", "id", "result"}, message
    _check(RESULTS[method], message["result"])
    return method


def _check(model: Any, value: Any) -> None:
    if model is schema.InitializeRequest:
        value = _without_newer(value)
    adapter = _adapter(model)
    parsed = adapter.validate_json(json.dumps(value), strict=True)
    back = adapter.dump_python(parsed, mode="json", by_alias=True, exclude_unset=True)
    assert json.dumps(back, sort_keys=True) == json.dumps(value, sort_keys=True), (model, value)


def _without_newer(params: Any) -> Any:
    """Return the parameters of `initialize` without the capabilities that this SDK does not know yet."""
    capabilities = params["clientCapabilities"]
    session = {key: value for key, value in capabilities["session"].items() if key not in NEWER}
    return {**params, "clientCapabilities": {**capabilities, "session": session}}


@cache
def _adapter(model: Any) -> TypeAdapter[Any]:
    return TypeAdapter(model)


def _no_key_twice(pairs: list[tuple[str, Any]]) -> Message:
    fields = dict(pairs)
    assert len(fields) == len(pairs), pairs
    return fields
