"""Files for the agent: `fs/read_text_file` and `fs/write_text_file`, inside the workspace only.

Symbolic links are resolved before the boundary is checked; a path that does not exist yet is judged
by its first existing ancestor. Reading and writing obey the session's permission mode.
"""

from __future__ import annotations

import os
from itertools import islice
from typing import Any

from agh.core.frames import Request
from agh.core.rules import Asking
from agh.keeper import permissions
from agh.keeper.live import Live

REFUSED = -32000
NOT_FOUND = -32002
INTERNAL = -32603


class Refused(Exception):
    """What the agent is told instead of a result."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def read(live: Live, frame: Request, params: dict[str, Any]) -> None:
    path, line, limit = str(params["path"]), params.get("line"), params.get("limit")
    _guarded(live, frame, "read", path, lambda: {"content": _read(live, path, line, limit)})


def write(live: Live, frame: Request, params: dict[str, Any]) -> None:
    path, text = str(params["path"]), str(params["content"])
    _guarded(live, frame, "edit", path, lambda: _write(live, path, text))


def inside(workspace: str, path: str) -> str:
    """The real path, if it lies in the workspace."""
    if not os.path.isabs(path) or "\0" in path:
        raise Refused(REFUSED, f"{path!r} is not an absolute path")
    if not permissions.is_inside(workspace, path):
        raise Refused(REFUSED, f"{path} is outside the workspace {workspace}")
    return os.path.realpath(path)


def _guarded(live: Live, frame: Request, action: str, path: str, work: Any) -> None:
    """Inside a batch: do the work if it is allowed, or once someone allows it."""
    agent = live.agent
    assert agent is not None

    def finish(option: dict[str, Any] | None) -> None:
        if not permissions.is_allowed(option):
            agent.refuse(frame.id, REFUSED, f"not allowed to {action} {path}")
            return
        try:
            agent.reply(frame.id, work())
        except Refused as refusal:
            agent.refuse(frame.id, refusal.code, str(refusal))
        except FileNotFoundError:
            agent.refuse(frame.id, NOT_FOUND, f"{path} does not exist")
        except (OSError, UnicodeError) as error:
            agent.refuse(frame.id, INTERNAL, f"{path}: {error}")

    permissions.ask(
        live,
        Asking(action, frame.method, os.path.realpath(path)),
        title=f"{frame.method} {path}",
        options=permissions.YES_OR_NO,
        raw=frame.raw,
        finish=finish,
    )


def _read(live: Live, path: str, line: Any, limit: Any) -> str:
    real = inside(live.meta["workspace_path"], path)
    with open(real, encoding="utf-8") as file:
        if line is None and limit is None:
            return file.read()
        start = max(0, int(line or 1) - 1)
        return "".join(islice(file, start, None if limit is None else start + max(0, int(limit))))


def _write(live: Live, path: str, text: str) -> dict[str, Any]:
    real = inside(live.meta["workspace_path"], path)
    os.makedirs(os.path.dirname(real), exist_ok=True)
    inside(live.meta["workspace_path"], real)
    with open(real, "w", encoding="utf-8", newline="") as file:
        file.write(text)
    return {}
