"""Checkpoints under test: read by the command, and damaged."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support.live import Session

DAMAGED = 8  # the exit number


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at // 8] ^= 1 << at % 8
    path.write_bytes(data)


def shown(session: Session, *args: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(session.agh("checkpoint", *args, "-o", "json").stdout)["checkpoint"]
    return found
