"""Checkpoints under test: read by the command, and damaged."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.live import Session

DAMAGED = 8  # the exit number


def flip(path: Path, at: int) -> None:
    """Flip one bit of a file."""
    data = bytearray(path.read_bytes())
    data[at // 8] ^= 1 << at % 8
    path.write_bytes(data)


def checkpoint_of(session: Session, *args: str) -> dict[str, object]:
    """Return the session's checkpoint as the command prints it."""
    printed = session.agh("checkpoint", *args, "-o", "json").stdout
    checkpoint: dict[str, object] = json.loads(printed)["checkpoint"]
    return checkpoint
