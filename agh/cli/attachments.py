"""Files that go along with a prompt: images as they are, everything else as a link the agent can follow."""

from __future__ import annotations

import os
from typing import Any

from agh.errors import Usage

IMAGE_BYTES = 10 << 20
_IMAGES = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
}


def attachment(path: str, capabilities: dict[str, Any]) -> dict[str, Any]:
    """A content block for a file, of a kind that the agent accepts."""
    if not os.path.isfile(path):
        raise Usage(f"--attach: {path} is not a file", hint="name a file that exists")
    kind = _IMAGES.get(os.path.splitext(path)[1].lower())
    if kind is None:
        real = os.path.realpath(path)
        return {"type": "resource_link", "uri": f"file://{real}", "name": os.path.basename(path)}
    if not (capabilities.get("promptCapabilities") or {}).get("image"):
        raise Usage(f"--attach: the agent takes no images ({path})", hint="agh agent doctor NAME")
    if os.path.getsize(path) > IMAGE_BYTES:
        raise Usage(f"--attach: {path} is larger than {IMAGE_BYTES >> 20} MiB", hint="make it smaller")
    from base64 import b64encode

    with open(path, "rb") as file:
        return {"type": "image", "mimeType": kind, "data": b64encode(file.read()).decode()}
