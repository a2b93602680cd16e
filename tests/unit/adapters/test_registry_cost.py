"""What plugins cost a command that needs none: nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

from agh.core.events import timestamp
from tests.support.build import Home, conversation
from tests.support.site import Site, agents

WATCH = """
import os, sys

def watch(event, args):
    if event in ("open", "os.listdir", "os.scandir") and args and isinstance(args[0], str):
        os.write(log, (event + " " + args[0] + "\\n").encode())

log = os.open(os.environ["OPENED"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
sys.addaudithook(watch)
"""


@pytest.fixture
def crowded(site: Site, home: Home) -> Site:
    """Thirty plugins and a session; what a command opens and lists is logged to $OPENED."""
    for number in range(30):
        site.add(f"plugin-{number}", agents({"name": f"bot-{number}", "argv": ["bot"]}))
    home.session(conversation(), name="talk", updated_at=timestamp())
    (site.path / "sitecustomize.py").write_text(WATCH)
    return site


def run(site: Site, *args: str) -> tuple[set[str], str]:
    """Return the modules that a command imports, and what it opens.

    The first does not have those that `import_module` gets; the files of these are in the second.
    """
    log = site.cwd / "opened"
    result = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "agh", *args],
        env=site.environ(OPENED=str(log)),
        cwd=site.cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert result.stdout
    lines = [line for line in result.stderr.splitlines() if line.startswith("import time:")]
    return {line.rsplit("|", 1)[1].strip() for line in lines}, log.read_text()


@pytest.mark.parametrize("args", [("list",), ("list", "-o", "json"), ("events", "talk"), ("status", "talk")])
def test_a_command_that_reads_touches_no_plugin(crowded: Site, args: tuple[str, ...]) -> None:
    modules, opened = run(crowded, "session", *args)
    assert "agh.cli.main" in modules
    assert "meta.json" in opened
    heavy = ("pluggy", "importlib.metadata", "importlib_metadata", "agh.adapters", "agh_echo")
    assert [name for name in modules if name.startswith(heavy)] == []
    for word in (".dist-info", "agh_plugin", "agh_echo", "/pluggy/", "/adapters/"):
        assert word not in opened


def test_the_probe_would_see_them(crowded: Site) -> None:
    modules, opened = run(crowded, "plugins", "list")
    assert "pluggy" in modules
    assert not any(name.startswith("importlib.metadata") for name in modules)
    for number in range(30):
        assert f"agh_plugin_{number}-1.0.dist-info/entry_points.txt" in opened
        assert f"agh_plugin_{number}." in opened
    assert "/agh_echo/" in opened
