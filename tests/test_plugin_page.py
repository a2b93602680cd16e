"""The plugin of docs/plugins.md, taken from the page as it stands, installed by pip, and found."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.build import ROOT
from tests.support.site import Site

PAGE = ROOT / "docs/plugins.md"


def files_of(page: str) -> dict[str, str]:
    """Return the files that the page shows: code blocks whose first line is a comment with a file's name."""
    return dict(re.findall(r"^```\w+\n# ([\w.]+\.(?:toml|py))\n(.*?)^```$", page, re.M | re.S))


@pytest.mark.slow
def test_the_plugin_of_the_page_is_found_after_pip_install(site: Site, tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    files = files_of(PAGE.read_text())
    assert set(files) == {"pyproject.toml", "agh_hello.py"}
    assert sum(len(text.strip().splitlines()) for text in files.values()) < 40
    for name, text in files.items():
        (package / name).write_text(text)
    pip = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps"]
    alone = ["--no-build-isolation"] if find_spec("hatchling") else []
    subprocess.run(
        [*pip, *alone, "--target", str(site.path), str(package)],
        env={**os.environ, "PIP_NO_INPUT": "1"},
        check=True,
        capture_output=True,
        timeout=100,
    )
    hello = site.plugins()["hello"]
    assert hello["error"] is None
    assert hello["hooks"] == ["agh_register_agents", "agh_register_commands"]
    assert hello["location"] == str(site.path)
    assert hello["distribution"].startswith("agh_hello-1")
    assert site.agh("hello").stdout == "hello\n"
    assert "Say hello." in site.agh("--help").stdout
    one = site.agents()["hello"]
    assert (one["title"], one["source"]) == ("Hello", "plugin hello")
    error = json.loads(site.agh("agent", "doctor", "hello", "-o", "json", code=9).stderr)["error"]
    assert error["code"] == "agent_not_installed"
