"""Agents from npm, installed by name and kept: each is there whole or not at all, and no wait is endless.

They go into AGH_REAL_AGENTS_DIR, by default a private directory in the system's temp directory. What is there
is not updated: delete it to get newer ones. Without npm or its registry a test is skipped, with the reason.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import subprocess
import tempfile
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

CACHE = Path(
    os.environ.get("AGH_REAL_AGENTS_DIR") or Path(tempfile.gettempdir()) / f"agh-real-agents-{os.getuid()}"
).absolute()
OF_THE_USER = dict(os.environ)  # for npm: its settings say which registry, and how to get there
PATH = OF_THE_USER.get("PATH", os.defpath)
INSTALL_LIMIT = 240.0


class Product(NamedTuple):
    """`name` is that of the built-in agent."""

    name: str
    package: str
    program: str
    version: str = ""  # such as @latest, where npm would take an old one that promises to run on an old Node


PRODUCTS = {
    one.name: one
    for one in (
        Product("opencode", "opencode-ai", "opencode"),
        Product("codex", "@zed-industries/codex-acp", "codex-acp"),
        Product("qwen", "@qwen-code/qwen-code", "qwen"),
        Product("claude", "@agentclientprotocol/claude-agent-acp", "claude-agent-acp", "@latest"),
    )
}


class NotInstalled(Exception):
    """The text says why."""


@cache
def folder_of(name: str) -> Path | NotInstalled:
    """Return where the product's program is, once it is installed; or why it is not."""
    product = PRODUCTS[name]
    place = CACHE / name
    CACHE.mkdir(mode=0o700, parents=True, exist_ok=True)
    if CACHE.stat().st_uid != os.getuid():
        return NotInstalled(f"{CACHE} belongs to someone else")
    with (CACHE / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            try:
                _install(product, place)
            except NotInstalled as error:
                return error
    return place / "node_modules" / ".bin"


def _install(product: Product, place: Path) -> None:
    npm = shutil.which("npm", path=PATH)
    if npm is None:
        raise NotInstalled(f"npm is not on PATH, so {product.package} cannot be installed")
    partial = CACHE / f"{product.name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    (partial / "package.json").write_text('{"private": true}\n')
    argv = [npm, "install", "--no-audit", "--no-fund", "--no-progress", product.package + product.version]
    environ = {**OF_THE_USER, "npm_config_cache": str(CACHE / "npm-cache")}
    with subprocess.Popen(
        argv,
        cwd=partial,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            _, said = process.communicate(timeout=INSTALL_LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # npm has children of its own
            raise NotInstalled(f"npm install {product.package} took more than {INSTALL_LIMIT:g} s") from None
    if process.returncode or not (partial / "node_modules" / ".bin" / product.program).exists():
        why = " ".join(line.removeprefix("npm error ") for line in said.splitlines() if "error" in line)
        raise NotInstalled(f"npm install {product.package} failed: {why[:300]}")
    partial.rename(place)


def version_of(name: str) -> str:
    package = CACHE / name / "node_modules" / PRODUCTS[name].package / "package.json"
    return str(json.loads(package.read_text())["version"])


def need(*names: str) -> None:
    """Make sure that these can be started, or skip the test."""
    for name in names:
        found = folder_of(name)
        if isinstance(found, NotInstalled):
            pytest.skip(str(found))
