"""What a command printed: checked for its shape, and for what a terminal must never get."""

from __future__ import annotations

import json
import re
import subprocess
from typing import Any

# What a terminal must never get from stored text. A carriage return is only part of a line's end.
UNSAFE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
    "\U000e0000-\U000e007f]|\r(?!\r?\n)"
)
OWN_STYLES = re.compile("\x1b\\[(?:0|[123](?:;3)?|(?:[123];)*(?:3[1-6]|38;5;[0-9]{1,3}))m")


def error_of(result: subprocess.CompletedProcess[str], code: str, exit: int) -> dict[str, Any]:
    """Return the JSON object on stderr, checked for its shape; nothing is on stdout."""
    assert result.returncode == exit, (result.returncode, result.stdout, result.stderr)
    assert result.stdout == ""
    document = json.loads(result.stderr)
    assert list(document) == ["error"]
    error: dict[str, Any] = document["error"]
    assert list(error) == ["code", "message", "hint", "details"]
    assert error["code"] == code
    assert error["message"]
    assert error["hint"]
    return error


def message_of(result: subprocess.CompletedProcess[str]) -> str:
    """Return the message of an error for people, which is exactly `agh: …` and `hint: …`."""
    lines = result.stderr.splitlines()
    assert len(lines) == 2, result.stderr
    assert lines[0].startswith("agh: ")
    assert lines[1].startswith("hint: ")
    assert len(lines[1]) > len("hint: ")
    return lines[0].removeprefix("agh: ")


def sequences(text: str) -> list[int]:
    """Return the sequence of each event of a JSON Lines text."""
    return [json.loads(line)["sequence"] for line in text.splitlines()]
