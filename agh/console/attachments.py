"""Files attached to a prompt: images and short texts as they are, the rest as a link the agent can follow.

Some agents do not follow links, so a text goes along if the agent takes that.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from agh.errors import Usage

IMAGE_BYTES = 10 << 20
TEXT_BYTES = 256 << 10
IMAGES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}


def check_file(path: str) -> None:
    """Refuse what no agent could be given: a file that is not there, or too large an image."""
    if not os.path.isfile(path):
        raise Usage(f"{path} is not a file", hint="name a file that exists")
    if os.path.splitext(path)[1].lower() in IMAGES and os.path.getsize(path) > IMAGE_BYTES:
        raise Usage(f"{path} is larger than {IMAGE_BYTES >> 20} MiB", hint="make it smaller")


def attachment(path: str, session: Mapping[str, Any]) -> dict[str, Any]:
    """Make the content block of a file, of a kind that the session's agent accepts."""
    check_file(path)
    kind = IMAGES.get(os.path.splitext(path)[1].lower())
    offered = (session.get("acp_caps") or {}).get("promptCapabilities")
    offered = offered if isinstance(offered, dict) else {}
    if kind is None:
        uri = f"file://{path_for_agent(os.path.realpath(path), session)}"
        if offered.get("embeddedContext") and (text := _read_text(path)) is not None:
            return {"type": "resource", "resource": {"uri": uri, "mimeType": "text/plain", "text": text}}
        return {"type": "resource_link", "uri": uri, "name": os.path.basename(path)}
    if not offered.get("image"):
        why = f"agent {session.get('agent_name')} does not accept images ({path})"
        raise Usage(why, hint="leave it out, or use an agent that takes images")
    from base64 import b64encode

    return {"type": "image", "mimeType": kind, "data": b64encode(_read(path, IMAGE_BYTES)).decode()}


def _read_text(path: str) -> str | None:
    """Return the text of a file; None if it is too long, or no text."""
    data = _read(path, TEXT_BYTES + 1)
    if len(data) > TEXT_BYTES or b"\0" in data:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return None


def _read(path: str, most: int) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(most)
    except OSError as error:
        raise Usage(f"{path} cannot be read: {error.strerror}", hint=f"ls -l {path}") from None


def path_for_agent(path: str, session: Mapping[str, Any]) -> str:
    """Return where the agent finds a local file; in another place it sees only the workspace."""
    if session.get("cwd") is None:
        return path
    workspace = os.path.realpath(session["workspace_path"])
    if not path.startswith(f"{workspace}/"):
        why = f"{path} is not in the workspace, and the agent runs in {session.get('place')}"
        raise Usage(why, hint=f"copy it to {workspace} first")
    return f"{session['cwd']}{path.removeprefix(workspace)}"
