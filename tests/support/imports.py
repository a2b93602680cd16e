"""The modules that a command imports."""

from __future__ import annotations

import os
import subprocess
import sys

HEAVY = (
    "asyncio",
    "sqlite_utils",
    "pydantic",
    "importlib.metadata",
    "prompt_toolkit",
    "rich",
    "acp",
    "platformdirs",
    "markdown_it",
    "prompt_toolkit",
)


def imported(*args: str) -> set[str]:
    result = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "agh", *args],
        env={**os.environ, "PYTHONPATH": ""},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert "a bug in agh" not in result.stderr
    lines = [line for line in result.stderr.splitlines() if line.startswith("import time:")]
    assert len(lines) > 10
    return {line.rsplit("|", 1)[1].strip() for line in lines}


def below(name: str, packages: tuple[str, ...]) -> bool:
    return any(name == package or name.startswith(f"{package}.") for package in packages)
