"""Logging in to an agent, and out again, in the way that the agent offers.

A method of the type `terminal` is the agent's own program with more arguments, run on the caller's terminal;
one of the type `env_var` needs variables in the environment; any other is a request that the agent serves, in
a browser for example. Older agents name a whole command in `_meta`. An agent that offers none has the command
of its record.
"""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from agh import config
from agh.adapters import registry
from agh.adapters.launch import Launch
from agh.core.acp.reasons import is_auth_failure
from agh.errors import (
    AgentFailed,
    AgentNeedsLogin,
    LoginFailed,
    LoginMethodUnknown,
    LoginNotOffered,
    LogoutNotOffered,
)
from agh.keeper.agent.advice import kind_of
from agh.keeper.agent.connection import RpcError
from agh.sessions.agent.greet import Greeted, Method, greet

LOGIN_LIMIT = 600.0  # seconds for a person who logs in with a browser

RunOnTerminal = Callable[[list[str], Mapping[str, str]], int]  # returns the exit code


def log_in(name: str | None, wanted: str | None, run: RunOnTerminal) -> dict[str, Any]:
    """Log in to an agent by the method that is named, or by the first that can be used here.

    `run` runs a program on the terminal. Raises if the agent still refuses a session afterwards.
    """
    with _greeted(name) as greeted:
        record = greeted.launch.agent
        method = choose_method(
            greeted.methods, wanted, record.auth_method, greeted.launch.environ, record.name
        )
        command = _command(greeted.launch, method)
        if command is None and method is not None:
            _authenticate(greeted, method)
            _open_session(greeted)
            return _report(record.name, method)
    if command is None:
        raise LoginNotOffered(record.name)
    argv, environ = command
    code = run(argv, environ)
    if code != 0:
        raise LoginFailed(record.name, f"{shlex.join(argv)} exited with code {code}")
    with _greeted(name) as greeted:
        _open_session(greeted)
    return _report(record.name, method)


def log_out(name: str | None) -> dict[str, Any]:
    """Log out of an agent, if it supports that."""
    with _greeted(name) as greeted:
        record, offered = greeted.launch.agent, greeted.capabilities.get("auth")
        if not isinstance(offered, dict) or offered.get("logout") is None:
            raise LogoutNotOffered(record.name)
        greeted.agent.call("logout", {}, greeted.settings["timeouts.new"])
        return {"name": record.name, "state": "logged out", "method": None}


def choose_method(
    methods: Sequence[Method], wanted: str | None, preferred: str, environ: Mapping[str, str], agent: str
) -> Method | None:
    """Return the method that is named, else the first that can be used; None if none is offered."""
    if wanted is not None:
        named = [method for method in methods if wanted in (method["id"], method.get("name"))]
        if not named:
            raise LoginMethodUnknown(agent, wanted, ", ".join(method["id"] for method in methods) or "none")
        return named[0]
    usable = [method for method in methods if not missing_variables(method, environ)]
    usable.sort(key=lambda method: method["id"] != preferred)
    return next(iter([*usable, *methods]), None)


def missing_variables(method: Mapping[str, Any], environ: Mapping[str, str]) -> list[str]:
    """Return the variables that a method needs and that are not set."""
    if kind_of(method) != "env_var":
        return []
    entries = method.get("vars")
    entries = entries if isinstance(entries, list) else [{"name": method.get("varName")}]
    required = [entry for entry in entries if isinstance(entry, dict) and not entry.get("optional")]
    names = [str(entry["name"]) for entry in required if isinstance(entry.get("name"), str)]
    return [name for name in names if not environ.get(name)]


def _command(launch: Launch, method: Method | None) -> tuple[list[str], dict[str, str]] | None:
    """Return what to run on the terminal, and its environment; None if nothing is to be run there."""
    record = launch.agent
    if method is None:
        return (shlex.split(record.login), dict(launch.environ)) if record.login else None
    if kind_of(method) != "terminal":
        return None
    meta = method.get("_meta")
    own = meta.get("terminal-auth") if isinstance(meta, dict) else None
    source = own if isinstance(own, dict) else method
    arguments = [str(word) for word in source.get("args") or [] if isinstance(word, str)]
    start = [str(own["command"])] if isinstance(own, dict) and own.get("command") else launch.argv
    return [*start, *arguments], {**launch.environ, **_variables(source.get("env"))}


def _variables(entries: Any) -> dict[str, str]:
    """Return variables, which come as a mapping or as a list of names and values."""
    if isinstance(entries, dict):
        return {str(name): value for name, value in entries.items() if isinstance(value, str)}
    pairs = [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    return {str(pair.get("name")): str(pair.get("value")) for pair in pairs}


def _authenticate(greeted: Greeted, method: Method) -> None:
    record = greeted.launch.agent
    if missing := missing_variables(method, greeted.launch.environ):
        hint = f"export {missing[0]}=…, then try again"
        if isinstance(method.get("link"), str):
            hint += f"; get its value at {method['link']}"
        raise AgentNeedsLogin(record.name, f"{', '.join(missing)} is not set", hint=hint)
    try:
        greeted.agent.call("authenticate", {"methodId": method["id"]}, LOGIN_LIMIT)
    except RpcError as error:
        raise LoginFailed(record.name, error.message, **error.details) from None


def _open_session(greeted: Greeted) -> None:
    """Open a session, to see whether the agent takes the login."""
    params = {"cwd": greeted.launch.cwd, "mcpServers": []}
    try:
        greeted.agent.call("session/new", params, greeted.settings["timeouts.new"])
    except RpcError as error:
        name = greeted.launch.agent.name
        if is_auth_failure(error.error):
            raise LoginFailed(name, error.message, **error.details) from None
        raise AgentFailed(name, error.message, **error.details) from None


def _report(name: str, method: Method | None) -> dict[str, Any]:
    return {"name": name, "state": "logged in", "method": method["id"] if method else None}


@contextmanager
def _greeted(name: str | None) -> Iterator[Greeted]:
    """Start an agent in an empty directory and shake hands; end it at the end of the block."""
    settings = config.load(os.getcwd())
    record = registry.default_agent(name or settings["agent"], os.getcwd())
    with (
        tempfile.TemporaryDirectory(prefix="agh-login-") as folder,
        greet(record, folder, settings) as greeted,
    ):
        yield greeted
