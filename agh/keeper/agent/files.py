"""Files for the agent: `fs/read_text_file` and `fs/write_text_file`, inside the workspace only.

Symbolic links are resolved before the boundary is checked; a path that does not exist yet is judged by its
first existing ancestor. What lies outside is always refused; what lies inside is subject to the session's
permissions. What was judged is what is opened, whatever is swapped meanwhile: see exact.py. Only regular
files are opened, so nothing can make the keeper wait. An editor that has the session open does the work
instead, with what is not saved yet: see keeper/lending.py.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from itertools import islice
from typing import Any

from agh.core.acp.frames import Request
from agh.core.acp.long_text import blocks, json_length
from agh.core.acp.permission import show_edits
from agh.core.acp.tool_calls import MAX_EDIT, Edit
from agh.core.rules import Asking
from agh.home import real_path
from agh.keeper.agent import permissions
from agh.keeper.agent.boundary import is_inside
from agh.keeper.agent.exact import open_file
from agh.keeper.session import Live

REFUSED = -32001  # -32000 would mean that a login is needed
NOT_FOUND = -32002
INTERNAL = -32603
READ_LIMIT = 64 << 20
_ANY_LINE = (1 << 31) - 1


def read(live: Live, frame: Request, params: dict[str, Any]) -> None:
    """Inside a batch: serve `fs/read_text_file`."""
    path, line, limit = str(params["path"]), params.get("line"), params.get("limit")
    start = 0 if line is None else min(max(0, int(line) - 1), _ANY_LINE)
    stop = None if limit is None else start + min(max(0, int(limit)), _ANY_LINE)
    lines = {name: params[name] for name in ("line", "limit") if params.get(name) is not None}
    _guarded(live, frame, "read", path, lambda real: {"content": _read(real, start, stop)}, lines)


def write(live: Live, frame: Request, params: dict[str, Any]) -> None:
    """Inside a batch: serve `fs/write_text_file`."""
    path, text = str(params["path"]), params["content"]
    if not isinstance(text, str):
        raise ValueError("content must be a string")
    _guarded(live, frame, "edit", path, lambda real: _write(real, text), {"content": text})


def refuse(live: Live, frame: Request, action: str, resource: str, why: str) -> None:
    """Inside a batch: record that something was refused without asking anyone, then refuse it."""
    agent = live.agent.connected
    live.log.record(
        "permission",
        turn_id=live.turns.current_id,
        action=action,
        resource=resource,
        title=f"{frame.method} {resource}",
        decision="denied",
        decided_by="workspace",
        raw=frame.raw,
    )
    live.log.then(lambda: agent.refuse(frame.id, REFUSED, why))


def _guarded(
    live: Live,
    frame: Request,
    action: str,
    path: str,
    work: Callable[[str], dict[str, Any]],
    params: dict[str, Any],
) -> None:
    """Inside a batch: run the work if it is allowed, or once someone allows it.

    `params` are those of the request beside the path, for an editor that does the work instead.
    """
    agent, workspace = live.agent.connected, live.cwd
    if not os.path.isabs(path) or "\0" in path:
        raise ValueError(f"{path!r} is not an absolute path")
    outside = f"{path} is outside the workspace {workspace}"
    real = real_path(path)
    if real is None or not is_inside(live.folders, real):
        refuse(live, frame, action, path, outside)
        return

    def finish(option: dict[str, Any] | None) -> None:
        if not permissions.is_allowed(option):
            agent.refuse(frame.id, REFUSED, f"not allowed to {action} {path}")
            return
        lending = live.agent.lending
        lend = (lending.read if action == "read" else lending.write) if lending is not None else None
        if lend is None or not lend(frame.id, {"path": real, **params}, work_here):
            work_here()

    def work_here() -> None:
        try:
            agent.reply(frame.id, work(real))
        except FileNotFoundError:
            agent.refuse(frame.id, NOT_FOUND, f"{path} does not exist")
        except (OSError, ValueError) as error:
            agent.refuse(frame.id, INTERNAL, f"{path}: {error}")

    permissions.ask(
        live,
        Asking(action, frame.method, (real,)),
        title=None,
        options=permissions.YES_OR_NO,
        raw=frame.raw,
        finish=finish,
        rpc_id=frame.id,
        diff=(lambda: _show_change(real, params["content"])) if action == "edit" else None,
    )


def _show_change(path: str, new_text: str) -> str | None:
    """Return what writing the text would change in a file."""
    try:
        old_text = _read(path, 0, None) if os.path.lexists(path) else ""
    except (OSError, ValueError):
        return f"{path}: its current content cannot be shown"
    too_long = len(old_text) + json_length(new_text) > MAX_EDIT
    return show_edits([Edit(path, old_text, None if too_long else new_text)])


def _read(path: str, start: int, stop: int | None) -> str:
    with open(open_file(path, os.O_RDONLY), encoding="utf-8", newline="") as file:
        if os.fstat(file.fileno()).st_size > READ_LIMIT:
            raise OSError(f"it is larger than {READ_LIMIT >> 20} MiB")
        if not start and stop is None:
            return file.read()
        return "".join(islice(file, start, stop))


def _write(path: str, text: str) -> dict[str, Any]:
    with open(open_file(path, os.O_WRONLY | os.O_CREAT), "w", encoding="utf-8", newline="") as file:
        file.truncate(0)
        file.writelines(blocks(text))
    return {}
