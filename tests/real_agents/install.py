"""Agents from npm and PyPI, installed by name and kept: each is whole or not there, and no wait is endless.

They go into AGH_REAL_AGENTS_DIR, by default a private directory in the system's temp directory. What is there
is not updated: delete it to get newer ones. Without npm, pip or their registries a test is skipped, with the
reason. The newest builds get a Node of their own from npm, since most need a newer one than systems have.
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
OF_THE_USER = dict(os.environ)  # for npm and pip: their settings say which registry, and how to get there
PATH = OF_THE_USER.get("PATH", os.defpath)
INSTALL_LIMIT = 240.0
PYTHONS = ("python3.14", "python3.13", "python3.12", "python3")


class Product(NamedTuple):
    """`name` is that of the built-in agent."""

    name: str
    package: str
    program: str
    version: str = ""  # such as @latest, where npm would take an old one that promises to run on an old Node
    folder: str = ""  # where in the cache, if not under its name
    python: tuple[int, int] | None = None  # a package of PyPI, and the oldest Python that it runs on

    @property
    def place(self) -> Path:
        return CACHE / (self.folder or self.name)


PRODUCTS = {
    product.name: product
    for product in (
        Product("opencode", "opencode-ai", "opencode"),
        Product("codex", "@zed-industries/codex-acp", "codex-acp"),
        Product("qwen", "@qwen-code/qwen-code", "qwen"),
        Product("claude", "@agentclientprotocol/claude-agent-acp", "claude-agent-acp", "@latest"),
    )
}


def _newest(name: str, package: str, program: str) -> Product:
    return Product(name, package, program, "@latest", f"newest/{name}")


NEWEST = {
    product.name: product
    for product in (
        _newest("claude", "@agentclientprotocol/claude-agent-acp", "claude-agent-acp"),
        _newest("codex", "@agentclientprotocol/codex-acp", "codex-acp"),
        _newest("opencode", "opencode-ai", "opencode"),
        _newest("qwen", "@qwen-code/qwen-code", "qwen"),
        _newest("gemini", "@google/gemini-cli", "gemini"),
        Product("vibe", "mistral-vibe", "vibe-acp", folder="newest/vibe", python=(3, 12)),
        _newest("kimi", "@moonshot-ai/kimi-code", "kimi"),
        _newest("goose", "@aaif/goose", "goose"),
    )
}
NODE = Product("node", "node", "node", "@24")


class NotInstalled(Exception):
    """The text says why."""


@cache
def folder_of(product: Product) -> Path | NotInstalled:
    """Return where the product's program is, once it is installed; or why it is not."""
    CACHE.mkdir(mode=0o700, parents=True, exist_ok=True)
    if CACHE.stat().st_uid != os.getuid():
        return NotInstalled(f"{CACHE} belongs to someone else")
    product.place.parent.mkdir(exist_ok=True)
    with (product.place.parent / f"{product.place.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not _is_whole(product):
            try:
                if product.python:
                    _install_from_pypi(product)
                else:
                    _install_from_npm(product)
            except NotInstalled as error:
                return error
    return product.place / ("bin" if product.python else "node_modules/.bin")


def _is_whole(product: Product) -> bool:
    # pip installs what it was asked for after everything that this needs.
    return (product.place / "bin" / product.program if product.python else product.place).exists()


def _install_from_npm(product: Product) -> None:
    npm = shutil.which("npm", path=PATH)
    if npm is None:
        raise NotInstalled(f"npm is not on PATH, so {product.package} cannot be installed")
    environ = {**OF_THE_USER, "npm_config_cache": str(CACHE / "npm-cache")}
    if product in NEWEST.values():
        node = folder_of(NODE)
        if isinstance(node, NotInstalled):
            raise node
        environ["PATH"] = f"{node}{os.pathsep}{PATH}"
    partial = product.place.with_suffix(".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir()
    (partial / "package.json").write_text('{"private": true}\n')
    argv = [npm, "install", "--no-audit", "--no-fund", "--no-progress", product.package + product.version]
    _run(argv, partial, environ, f"npm install {product.package}")
    if not (partial / "node_modules" / ".bin" / product.program).exists():
        raise NotInstalled(f"{product.package} has no program {product.program}")
    partial.rename(product.place)


def _install_from_pypi(product: Product) -> None:
    python = _find_python(product.python or (3, 0))
    if python is None:
        version = ".".join(map(str, product.python or ()))
        raise NotInstalled(f"{product.package} needs Python {version}, and there is none on PATH")
    # Installed where it stays: the scripts of a virtual environment have its path in them.
    try:
        _run([python, "-m", "venv", str(product.place)], CACHE, OF_THE_USER, "python -m venv")
        pip = [str(product.place / "bin" / "pip"), "install", "-q", product.package]
        _run(pip, CACHE, OF_THE_USER, f"pip install {product.package}")
        if not (product.place / "bin" / product.program).exists():
            raise NotInstalled(f"{product.package} has no program {product.program}")
    except BaseException:
        shutil.rmtree(product.place, ignore_errors=True)
        raise


def _find_python(oldest: tuple[int, int]) -> str | None:
    """Return a Python that is new enough: on PATH, or among those of pyenv."""
    folders = [*PATH.split(os.pathsep), *map(str, Path.home().glob(".pyenv/versions/*/bin"))]
    script = f"import ssl, venv, sys; sys.exit(sys.version_info < {oldest})"
    for name in PYTHONS:
        for folder in folders:
            path = os.path.join(folder, name)
            if (
                os.access(path, os.X_OK)
                and not subprocess.run(
                    [path, "-c", script], capture_output=True, timeout=20, check=False
                ).returncode
            ):
                return path
    return None


def _run(argv: list[str], folder: Path, environ: dict[str, str], name: str) -> None:
    """Run an installer to its end; raise NotInstalled with its own reason if it fails."""
    with subprocess.Popen(
        argv,
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            _, words = process.communicate(timeout=INSTALL_LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # npm has children of its own
            raise NotInstalled(f"{name} took more than {INSTALL_LIMIT:g} s") from None
    if process.returncode:
        lines = [line.removeprefix("npm error ") for line in words.splitlines() if "error" in line.lower()]
        raise NotInstalled(f"{name} failed: {' '.join(lines)[:300]}")


def version_of(product: Product) -> str:
    if product.python:
        name = product.package.replace("-", "_")
        (path,) = product.place.glob(f"lib/python*/site-packages/{name}-*.dist-info")
        return path.name.removeprefix(f"{name}-").removesuffix(".dist-info")
    package = product.place / "node_modules" / product.package / "package.json"
    return str(json.loads(package.read_text())["version"])


def need(*names: str) -> None:
    """Make sure that these can be started, or skip the test."""
    for name in names:
        need_product(PRODUCTS[name])


def need_product(product: Product) -> Path:
    """Return where the product's program is, or skip the test."""
    folder = folder_of(product)
    if isinstance(folder, NotInstalled):
        pytest.skip(str(folder))
    return folder
