"""The agent that an editor sees: read messages, do what they ask, until the editor is gone.

Promises: a message is understood, refused with the right error, or ignored if it is a notification; none ends
the connection. Requests of one session are done in order, those of several at the same time. When the client
closes its end, whatever it asked for before is still done. Its sessions go on.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from functools import partial
from typing import Any

import orjson

from agh.home import Session
from agh.keeper import spawn
from agh.sessions import start
from agh.store import meta
from agh.store.reader import Reader
from agh_acp import methods
from agh_acp.attachment import Attachment
from agh_acp.connection import Connection, Options
from agh_acp.failures import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, Refusal, error_of
from agh_acp.wire import Message, Pipe, Wire

REAP_EVERY = 1.0


def serve(source: int, sink: int, options: Options) -> None:
    """Serve the client at the other ends of two descriptors until it closes its own."""
    gc.enable()  # off in short commands; this one runs for long
    threading.Thread(target=_reap_keepers, daemon=True).start()
    spawn.orphans = True  # an editor may end all processes below the one that it started
    pipe = Pipe(source, sink)
    connection = Connection(Wire(pipe.send), options)
    for line in pipe.lines():
        take_line(connection, line)
    finish(connection)


def finish(connection: Connection) -> None:
    """End the connection of a client that is gone: do what it asked for, and leave its sessions to others."""
    connection.leave()
    connection.workers.finish()


def take_line(connection: Connection, line: bytes) -> None:
    """Take what the client sent: a request, a notification, or an answer to a request of ours."""
    wire = connection.wire
    try:
        message = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        wire.refuse(None, {"code": PARSE_ERROR, "message": f"Parse error: {error}"})
        return
    if not isinstance(message, dict):
        wire.refuse(
            None, {"code": INVALID_REQUEST, "message": "Invalid request: a message must be an object"}
        )
    elif not isinstance(message.get("method"), str):
        if "result" in message or "error" in message or wire.awaits(message.get("id")):
            wire.deliver(message)
        else:
            wire.refuse(message.get("id"), {"code": INVALID_REQUEST, "message": "Invalid request: no method"})
    elif "id" in message:
        take_request(connection, message)
    else:
        take_notification(connection, message)


def take_request(connection: Connection, message: Message) -> None:
    """Do what a request asks, in the thread of its session."""
    method, params = message["method"], _params(message)
    if method == "session/prompt":
        take_prompt(connection, message["id"], params)
        return
    handler = methods.METHODS.get(method)
    if handler is None and isinstance(params.get("sessionId"), str):
        handler = partial(methods.pass_on, method)
    if handler is None:
        error = {
            "code": METHOD_NOT_FOUND,
            "message": f"Method not found: {method}",
            "data": {"method": method},
        }
        connection.wire.refuse(message["id"], error)
        return

    def work() -> None:
        try:
            reply = handler(connection, params)
        except Exception as error:
            connection.wire.refuse(message["id"], error_of(error))
            return

        def answer() -> None:
            connection.wire.reply(message["id"], reply.result)
            reply.then()

        if reply.created is None:
            answer()
        else:  # its first prompt can come as soon as the client has the answer, and waits for the rest
            connection.workers.run(reply.created, answer)

    session_id = params.get("sessionId")
    if method == "initialize":
        work()
    elif isinstance(session_id, str):
        connection.workers.run(session_id, work)
    else:
        connection.workers.start(work)


def take_prompt(connection: Connection, request_id: Any, params: dict[str, Any]) -> None:
    """Put a prompt into the queue of its session; the end of its turn answers the request."""
    try:
        session, blocks = methods.existing(params), _read_blocks(params)
        _check_kinds(session, blocks)
    except Exception as error:
        connection.wire.refuse(request_id, error_of(error))
        return
    prompts = connection.prompts(session)
    prompt = prompts.expect(request_id)

    def work() -> None:
        try:
            attachment = _ensure_attached(connection, session)
        except Exception as error:
            prompts.refuse(prompt, error)
            return
        prompts.send(prompt, blocks, attachment.mcp_servers, attachment.hands.lend)

    connection.workers.run(session.id, work)


def take_notification(connection: Connection, message: Message) -> None:
    """Do what a notification asks; one that nobody knows is for the session's agent, if it names one."""
    params = _params(message)
    if message["method"] == "session/cancel":
        try:
            prompts = connection.prompts(methods.existing(params))
        except Exception:
            return  # there is nothing to cancel, and nobody to tell
        connection.workers.start(prompts.cancel)
    elif message["method"] == "$/cancel_request":
        for prompts in connection.all_prompts():
            connection.workers.start(partial(prompts.cancel_request, params.get("requestId")))
    elif isinstance(params.get("sessionId"), str):
        connection.workers.run(params["sessionId"], partial(methods.notify, message["method"], params))


def _ensure_attached(connection: Connection, session: Session) -> Attachment:
    """Return how the client follows the session of a prompt; it may not have opened it."""
    attachment = connection.attachment(session)
    if attachment is None:
        with Reader(session) as reader:
            attachment = connection.attach(session, reader.last_sequence(), [])
    return attachment


def _params(message: Message) -> dict[str, Any]:
    params = message.get("params")
    return params if isinstance(params, dict) else {}


def _read_blocks(params: dict[str, Any]) -> list[dict[str, Any]]:
    blocks = params.get("prompt")
    if not isinstance(blocks, list) or not blocks or not all(isinstance(block, dict) for block in blocks):
        raise Refusal(INVALID_PARAMS, "prompt is missing, or not a list of content blocks")
    return blocks


def _check_kinds(session: Session, blocks: list[dict[str, Any]]) -> None:
    """Refuse images and sounds that the session's agent does not take; what agh offers is for all agents."""
    metadata = meta.read(session)
    offered = (metadata.get("acp_caps") or {}).get("promptCapabilities")
    offered = offered if isinstance(offered, dict) else {}
    for kind in ("image", "audio"):
        if not offered.get(kind) and any(block.get("type") == kind for block in blocks):
            raise Refusal(
                INVALID_PARAMS, f"agent {metadata['agent_name']} does not accept content of type {kind}"
            )


def _reap_keepers() -> None:
    """Reap keepers that have ended: those started here are our children."""
    while True:
        time.sleep(REAP_EVERY)
        for pid in list(start.children):
            try:
                ended, _ = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                ended = pid
            if ended:
                start.children.remove(pid)
