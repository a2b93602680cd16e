"""What a tool call is about: its kind, its paths and its command, wherever the agent puts them."""

from __future__ import annotations

import os
from typing import Any

from agh.core.acp.updates import only_dicts, tool_name
from agh.core.rules import Asking
from agh.home import MAX_PATH, real_path
from agh.keeper.agent.boundary import is_inside

MAX_PATHS = 1000
UNRESOLVED = "unresolved:"


def read_tool_call(tool: dict[str, Any], workspace: str) -> Asking:
    """Return what a tool call asks for; paths outside the workspace come first."""
    kind, arguments = str(tool.get("kind") or "other"), tool.get("rawInput")
    arguments = arguments if isinstance(arguments, dict) else {}
    named = [item.get("path") for key in ("locations", "content") for item in only_dicts(tool.get(key))]
    named += [arguments.get(key) for key in ("path", "file_path", "filePath")]
    texts = [os.path.join(workspace, path) for path in named if isinstance(path, str) and path]
    if len(texts) > MAX_PATHS:
        raise ValueError(f"a tool call names {MAX_PATHS} paths at most")
    # A path that cannot be resolved must match no rule for a path, and lies inside nothing.
    paths = dict.fromkeys(real_path(text) or UNRESOLVED + text[:MAX_PATH] for text in texts)
    command = arguments.get("command")
    if isinstance(command, list):
        command = " ".join(map(str, command))
    return Asking(
        kind,
        tool_name(tool) or kind,
        tuple(sorted(paths, key=lambda path: is_inside(workspace, path))),
        command if isinstance(command, str) else None,
    )
