"""A keeper whose files are replaced: it has loaded everything that it needs."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import agh
from tests.support.live import Live
from tests.support.wait import wait_until

PACKAGE = Path(agh.__file__).parent
# Function-level imports of modules that a keeper does not load, and why it never gets there.
NOT_IN_A_KEEPER = {
    "agh.adapters.exporters": "only `agh session export` asks for exporters",
    "agh.adapters.importers": "only `agh session import` asks for importers",
    "agh.adapters.env_file": "it is loaded for the agent's start, or never",
    "agh.keeper.turns.error_log": "it is loaded for the agent's start, or never",
    "platformdirs": "only the search index has a cache",
    "tomlkit": "only a command changes settings",
    "tomlkit.exceptions": "only a command changes settings",
    "sqlite_utils": "an old log is upgraded before the keeper is ready",
}


def lazy_imports(path: Path) -> Iterator[str]:
    """Yield the modules that functions of a file import."""
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Import):
                    yield from (alias.name for alias in node.names)
                elif isinstance(node, ast.ImportFrom) and node.module is not None:
                    whole = PACKAGE.parent.joinpath(*node.module.split("."))
                    if whole.is_dir() and not (whole / "__init__.py").read_text():
                        yield from (f"{node.module}.{alias.name}" for alias in node.names)
                    else:
                        yield node.module


def test_every_lazy_import_is_loaded_at_the_start() -> None:
    code = "import agh.keeper.main, sys; from agh.adapters import registry; registry.manager()"
    code += "; from agh.keeper.process import preload; preload()"
    command = [sys.executable, "-c", f"{code}; print(*sys.modules)"]
    loaded = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    files = [
        path
        for path in PACKAGE.rglob("*.py")
        if ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")
        in loaded
    ]
    assert len(files) > 50
    lazy = {name for path in files for name in lazy_imports(path)}
    assert "agh.core.settings.toml_text" in lazy, "the search finds what is known to be there"
    ours = {name for name in lazy if name.partition(".")[0] not in sys.stdlib_module_names}
    assert ours - loaded == set(NOT_IN_A_KEEPER)


def _import_agh(env: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    """Return what a keeper gets as agh: it starts with -P, too."""
    command = [sys.executable, "-P", "-c", "import agh; print(agh.__file__)"]
    return subprocess.run(command, env={**os.environ, **env}, capture_output=True)


def test_a_keeper_works_on_when_its_files_are_replaced(live: Live, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    shutil.copytree(PACKAGE, tree / "agh", ignore=shutil.ignore_patterns("__pycache__"))
    old = {"PYTHONPATH": str(tree)}
    assert str(tree).encode() in _import_agh(old).stdout, "keepers run from the copy"
    sessions = [live.new(args=args, env=old) for args in ((), (), ("--max-turns", "3"))]
    crashes, stops, pauses = sessions
    (tree / "agh").rename(tree / "replaced")
    (tree / "agh").mkdir()
    (tree / "agh" / "__init__.py").write_text("raise ImportError('this is another version')\n")
    assert b"another version" in _import_agh(old).stderr, "a keeper that starts now gets the new files"

    for session in sessions:
        assert session.tell("hello") == "echo: hello"
        session.send("/ask path=a.txt Edit a.txt")
        wait_until(lambda: session.fetch("SELECT 1 FROM permissions WHERE status = 'pending'"))  # noqa: B023
        session.agh("approve")
        session.wait_idle()
        assert session.text().endswith("permission: allow_once")

    crashes.prompt("/crash", code=None)
    wait_until(lambda: crashes.meta()["state"] == "stopped")
    bundle = Path(crashes.meta()["failure"]["crash_bundle_path"])
    assert json.loads(bundle.read_text())["last_events"]
    stops.stop()
    assert stops.meta()["stop_reason"] == "completed"
    pauses.tell("last")
    wait_until(lambda: pauses.meta()["state"] == "stopped")
    assert (pauses.meta()["stop_reason"], pauses.events()[-1].type) == ("max_turns", "session_paused")
    for session in sessions:
        session.check_log()
        log = (session.directory / "keeper.log").read_text()
        assert "Traceback" not in log
        assert "Error" not in log
