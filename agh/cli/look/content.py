"""Names for what a terminal cannot show: images, sounds, files. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from agh.console.terminal import one_line


def name_blocks(blocks: Iterable[Any]) -> list[str]:
    """Return a name for each content block that is not text, such as `[image: image/png, 12 kB]`."""
    return [
        name_block(block)
        for block in blocks
        if isinstance(block, dict) and block.get("type") not in (None, "text")
    ]


def name_block(block: dict[str, Any]) -> str:
    """Return a name for a content block: its type, and its file or its size."""
    inner = block.get("resource")
    fields = {**block, **inner} if isinstance(inner, dict) else block
    label = {"resource": "file", "resource_link": "file"}.get(str(block.get("type")), str(block.get("type")))
    path = str(fields.get("uri") or fields.get("name") or "").removeprefix("file://")
    size = _size(fields.get("data") or fields.get("blob"))
    details = ", ".join(filter(None, [path, "" if path else str(fields.get("mimeType") or ""), size]))
    return one_line(f"[{label}: {details}]" if details else f"[{label}]", 400)


def _size(data: Any) -> str:
    """Return the size of data that is encoded in base64."""
    if not isinstance(data, str) or not data:
        return ""
    size = len(data) * 3 // 4
    return (
        f"{size} bytes" if size < 1000 else f"{size / 1000:.0f} kB" if size < 1e6 else f"{size / 1e6:.1f} MB"
    )
