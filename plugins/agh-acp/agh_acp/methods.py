"""The methods that a client can call, except prompts. Each takes the connection and the parameters.

What changes a session goes through agh.sessions, as with every other face. `session/load` and
`session/resume` start nothing: the log is enough to show a session, and the next prompt makes it live.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from agh.core.acp.updates import MAX_COMMANDS
from agh.core.named_tuple import NamedTuple
from agh.errors import AghError, SessionNotFound
from agh.home import Session, session_of
from agh.keeper import client as keeper
from agh.sessions import fork as forking
from agh.sessions.delete import delete
from agh.sessions.new import create
from agh.sessions.start import ensure_live
from agh.sessions.stop import stop_session
from agh.sessions.update import choose
from agh.store import lock as locks
from agh.store import meta
from agh.store.reader import Reader
from agh.store.views import View, list_views, session_view
from agh_acp.capabilities import initialize_answer, options_for, read_client, settings_for
from agh_acp.connection import Connection
from agh_acp.content import prompt_capabilities
from agh_acp.failures import INVALID_PARAMS, INVALID_REQUEST, NOT_FOUND, Refusal
from agh_acp.replay import replay

PASS_LIMIT = 70.0  # seconds; the keeper gives up earlier
PAGE = 100  # sessions in one answer to session/list
Params = dict[str, Any]


class Reply(NamedTuple):
    """The answer to a request, and what to do once it was sent; `created` is the session that it names."""

    result: Any
    then: Callable[[], None] = lambda: None
    created: str | None = None


def initialize(connection: Connection, params: Params) -> Reply:
    """Take what the client can do; say what agh offers. A client that wants another version may leave."""
    if type(params.get("protocolVersion")) is not int:
        raise Refusal(INVALID_PARAMS, "protocolVersion is missing or not a number")
    connection.client = read_client(params)
    return Reply(initialize_answer(prompt_capabilities(connection.options)))


def new(connection: Connection, params: Params) -> Reply:
    """Create a session, and follow it. If its agent does not start, nothing is left of it."""
    servers, options = read_servers(connection, params), connection.options
    session, _ = create(
        agent=options.agent,
        command=options.command,
        workspace=read_directory(params),
        directories=read_directories(params),
        permissions=options.permissions,
        on=options.place,
        mcp_servers=servers,
        keep_mcp_servers=options.keep_mcp,
        discard=True,
    )
    result = {"sessionId": session.id, **settings(connection, session)}
    return Reply(result, lambda: attach(connection, session, 0, params), session.id)


def list_sessions(connection: Connection, params: Params) -> Reply:
    """List the sessions of the home, newest activity first; of one directory, if it is named."""
    directory, cursor = params.get("cwd"), params.get("cursor")
    if not isinstance(directory, str | None) or not isinstance(cursor, str | None):
        raise Refusal(INVALID_PARAMS, "cwd and cursor must be strings")
    path = None if directory is None else os.path.realpath(directory)

    def keep(view: View) -> bool:
        if view["state"] == "unknown" or view.get("archived") or view.get("kind"):
            return False
        return path is None or view["workspace_path"] == path

    views = list_views(keep)
    if cursor is not None:
        views = [view for view in views if position(view) < cursor]
    page = views[:PAGE]
    more = {"nextCursor": position(page[-1])} if len(views) > PAGE else {}
    return Reply({"sessions": [describe(view) for view in page], **more})


def load(connection: Connection, params: Params) -> Reply:
    """Show a session from its log, whatever its agent still remembers; then follow it."""
    session = existing(params)
    read_servers(connection, params)
    connection.detach(session)
    with Reader(session) as reader:
        until = reader.last_sequence()
        rows = (row for row in reader.rows() if row.sequence <= until)
        updates = replay(rows, connection.client)
    connection.send_updates(session, updates)
    return Reply(settings(connection, session), lambda: attach(connection, session, until, params))


def resume(connection: Connection, params: Params) -> Reply:
    """Follow a session from now on, without showing what it has."""
    session = existing(params)
    read_servers(connection, params)
    connection.detach(session)
    with Reader(session) as reader:
        until = reader.last_sequence()

    def follow() -> None:
        if commands := available_commands(session):
            update = {"sessionUpdate": "available_commands_update", "availableCommands": commands}
            connection.send_updates(session, [update])
        attach(connection, session, until, params)

    return Reply(settings(connection, session), follow)


def fork(connection: Connection, params: Params) -> Reply:
    """Start a new session with the history of another."""
    origin, servers = existing(params), read_servers(connection, params)
    session, _ = forking.fork(origin, mcp_servers=servers)
    copied = (session_view(session).get("forked_from") or {}).get("sequence") or 0
    result = {"sessionId": session.id, **settings(connection, session)}
    return Reply(result, lambda: attach(connection, session, copied, params), session.id)


def delete_session(connection: Connection, params: Params) -> Reply:
    """Delete a session for good, with its log; refuse one that is working. One that is gone is deleted."""
    if (session := find(params)) is None:
        return Reply({})
    if locks.is_held(session):
        if (session_view(session).get("activity") or {}).get("turn_id"):
            raise Refusal(INVALID_REQUEST, f"{session.id} is working; cancel its turn first")
        stop_session(session)
    connection.detach(session)
    delete(session)
    return Reply({})


def close(connection: Connection, params: Params) -> Reply:
    """Stop following a session. It continues, and its prompts stay in the queue."""
    session = existing(params)
    connection.detach(session)
    connection.forget(session)
    return Reply({})


def set_mode(connection: Connection, params: Params) -> Reply:
    """Choose the agent's mode."""
    choose(existing(params), {"mode": read_text(params, "modeId")})
    return Reply({})


def set_model(connection: Connection, params: Params) -> Reply:
    """Choose the agent's model, as older clients do."""
    choose(existing(params), {"model": read_text(params, "modelId")})
    return Reply({})


def set_config_option(connection: Connection, params: Params) -> Reply:
    """Choose one of the agent's own options, and return all of them as they are then."""
    session, option_id, value = existing(params), read_text(params, "configId"), params.get("value")
    if not isinstance(value, str | bool):
        raise Refusal(INVALID_PARAMS, "value is missing, or neither a string nor a boolean")
    options = (meta.read(session).get("offers") or {}).get("configOptions") or []
    option = next((option for option in options if option.get("id") == option_id), None)
    if option is None:
        raise Refusal(INVALID_PARAMS, f"there is no option {option_id!r}")
    category = option.get("category")
    name = category if category in ("model", "mode") else option_id
    choose(session, {name: str(value).lower() if isinstance(value, bool) else value})
    options = (meta.read(session).get("offers") or {}).get("configOptions") or []
    changed = [{**each, "currentValue": value} if each.get("id") == option_id else each for each in options]
    return Reply({"configOptions": options_for(connection.client, changed)})


def pass_on(method: str, connection: Connection, params: Params) -> Reply:
    """Pass on a request that agh does not know to the session's agent, and return its answer."""
    session = existing(params)
    ensure_live(session)
    answer = keeper.call(session, "pass", method=method, params=params, wants_answer=True, limit=PASS_LIMIT)
    if "error" in answer:
        error = answer["error"]
        raise Refusal(error["code"], error["message"], error.get("data"))
    return Reply(answer["result"])


def notify(method: str, params: Params) -> None:
    """Pass on a notification that agh does not know to the session's agent, if it is live."""
    with suppress(AghError, Refusal):
        keeper.call(existing(params), "pass", method=method, params=params)


METHODS: dict[str, Callable[[Connection, Params], Reply]] = {
    "initialize": initialize,
    "session/new": new,
    "session/list": list_sessions,
    "session/load": load,
    "session/resume": resume,
    "session/fork": fork,
    "session/delete": delete_session,
    "session/close": close,
    "session/set_mode": set_mode,
    "session/set_model": set_model,
    "session/set_config_option": set_config_option,
}


def find(params: Params) -> Session | None:
    """Return the session that the parameters name, or None if there is no such session."""
    with suppress(SessionNotFound):
        session = session_of(read_text(params, "sessionId"))
        return session if os.path.isdir(session) else None
    return None


def existing(params: Params) -> Session:
    """Return the session that the parameters name; refuse if there is no such session."""
    if (session := find(params)) is None:
        raise Refusal(NOT_FOUND, f"there is no session {params['sessionId']}")
    return session


def attach(connection: Connection, session: Session, after: int, params: Params) -> None:
    """Follow a session that the client opens with these parameters."""
    directory = params.get("cwd")
    path = directory if isinstance(directory, str) else None
    connection.attach(session, after, read_servers(connection, params), path)


def settings(connection: Connection, session: Session) -> dict[str, Any]:
    """Return the modes and options that the session's agent offers, as last known."""
    return settings_for(connection.client, meta.read(session).get("offers") or {})


def available_commands(session: Session) -> list[dict[str, Any]]:
    """Return the slash commands that the session's agent offers, as last known."""
    commands = (meta.read(session).get("commands") or [])[:MAX_COMMANDS]
    return [
        {"name": command["name"], "description": command.get("description", "")}
        | ({"input": {"hint": command["hint"]}} if "hint" in command else {})
        for command in commands
    ]


def describe(view: View) -> dict[str, Any]:
    """Return a session as it is in a list, without what is not known: not every editor takes null."""
    info = {
        "sessionId": view["id"],
        "cwd": view["workspace_path"],
        "additionalDirectories": view.get("additional_directories") or [],
        "title": view.get("name") or view.get("title"),
        "updatedAt": view.get("updated_at"),
        "_meta": {"agh": {"agent": view["agent_name"], "state": view["state"], "badge": view["badge"]}},
    }
    return {name: value for name, value in info.items() if value is not None}


def position(view: View) -> str:
    """Return where a session is in the list, by its last activity."""
    return f"{view.get('updated_at') or ''} {view['id']}"


def read_text(params: Params, name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise Refusal(INVALID_PARAMS, f"{name} is missing or not a string")
    return value


def read_directory(params: Params) -> str:
    """Return the directory of a new session."""
    directory = read_text(params, "cwd")
    if not os.path.isabs(directory):
        raise Refusal(INVALID_PARAMS, "cwd is not an absolute path")
    return directory


def read_directories(params: Params) -> list[str]:
    """Return the directories that an agent may work in beside its workspace."""
    directories = params.get("additionalDirectories") or []
    if not isinstance(directories, list) or not all(isinstance(path, str) for path in directories):
        raise Refusal(INVALID_PARAMS, "additionalDirectories must be a list of paths")
    return directories


def read_servers(connection: Connection, params: Params) -> list[dict[str, Any]]:
    """Return the client's MCP servers. A client on the web cannot name a program to run."""
    servers = params.get("mcpServers") or []
    if not isinstance(servers, list) or not all(isinstance(server, dict) for server in servers):
        raise Refusal(INVALID_PARAMS, "mcpServers must be a list of objects")
    if connection.options.is_remote and any("command" in server for server in servers):
        raise Refusal(INVALID_PARAMS, "over agh serve, an MCP server needs a url; it cannot be a command")
    return servers
