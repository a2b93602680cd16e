"""The messages between a command and a keeper: on the control socket, and when it starts.

A message is a line of JSON. Request: `{"v":1,"verb":…,…}`; answer: `{"ok":{…}}` or `{"error":{…}}`.
The socket's path may be too long for a socket address, so it is reached through the directory's descriptor.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypedDict

import orjson

from agh.home import Session

VERSION = 1
STOP = "stop"  # the verb that every version understands, so that a session can always be stopped
MAX_MESSAGE = 64 << 20
FILE = "keeper.sock"


class StartRequest(TypedDict, total=False):
    """What a command asks of the keeper that it starts."""

    new: bool  # the session has just been created
    agent: str | None  # hand the session over to this agent
    fresh: bool  # start a new conversation instead of restoring the last
    fork: str | None  # the agent's session that this session is a copy of
    fork_message: str | None  # the agent's id of the last message of a copy that is not whole
    skip: list[str]  # restore strategies not to use
    require_context: bool  # refuse a strategy that loses the agent's memory
    limits: dict[str, Any] | None
    mcp_servers: list[dict[str, Any]]  # for this start only, beside those of the session
    remarks: list[str]  # what was done to the session beforehand


@contextmanager
def short_path(session: Session) -> Iterator[str]:
    """Yield a path to the session's socket that is short however deep the directory is."""
    fd = os.open(session, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    here = None
    try:
        if os.path.isdir("/proc/self/fd"):
            yield f"/proc/self/fd/{fd}/{FILE}"
            return
        here = os.open(".", os.O_RDONLY | os.O_CLOEXEC)
        os.fchdir(fd)
        yield FILE
    finally:
        if here is not None:
            os.fchdir(here)
            os.close(here)
        os.close(fd)


def encode(message: dict[str, Any]) -> bytes:
    """Encode a message as a line."""
    return orjson.dumps(message, option=orjson.OPT_APPEND_NEWLINE)
