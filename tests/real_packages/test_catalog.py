"""The bundled list of agents against npm and PyPI, and real installations with npm and uv.

Not part of `make test`: run `make catalog`. What no package has is skipped, with the reason.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agh.catalog.source import read_bundled
from tests.support.program import Agh

NPM = {entry.id: entry.npx for entry in read_bundled().entries.values() if entry.npx}
PYPI = {entry.id: entry.uvx for entry in read_bundled().entries.values() if entry.uvx}
LIMIT = 300.0
PYTHONS = ("3.11", "3.12", "3.13")
REAL_HOME = os.path.expanduser("~")


def run(*argv: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(argv, capture_output=True, text=True, timeout=LIMIT, **options)


@pytest.fixture(autouse=True)
def settings(private_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """npm's and uv's settings are the user's, and so is the network; the list is the bundled one."""
    monkeypatch.setenv("npm_config_userconfig", os.path.join(REAL_HOME, ".npmrc"))
    monkeypatch.setenv("PATH", os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    private_home.mkdir(mode=0o700)
    (private_home / "config.toml").write_text('catalog.url = ""\n')


@pytest.mark.parametrize("id", NPM)
def test_npm_has_the_package_and_its_program(id: str) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not on PATH")
    package = NPM[id]
    outcome = run("npm", "view", "--json", f"{package.name}@{package.version}", "name", "version", "bin")
    assert outcome.returncode == 0, outcome.stdout
    facts = json.loads(outcome.stdout)
    assert facts["version"] == package.version
    programs = facts["bin"] if isinstance(facts["bin"], dict) else {package.name: facts["bin"]}
    name = package.command or package.name.rpartition("/")[2]
    assert name in programs or len(set(programs.values())) == 1, "npx could not tell which program to run"


@pytest.mark.parametrize("id", PYPI)
def test_pypi_has_the_package_and_its_program(id: str, tmp_path: Path) -> None:
    package = PYPI[id]
    for python in PYTHONS:
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--only-binary=:all:"]
        spec = f"{package.name}=={package.version}"
        outcome = run(*pip, "--python-version", python, "-d", str(tmp_path), spec)
        if outcome.returncode == 0:
            break
    (wheel,) = tmp_path.glob("*.whl")
    programs = run("unzip", "-p", str(wheel), "*/entry_points.txt").stdout
    assert f"{package.command or package.name}" in {
        line.partition("=")[0].strip() for line in programs.splitlines()
    }


def install_and_start(agh: Agh, tmp_path: Path, name: str) -> dict[str, Any]:
    """Install an agent, start it, and return what `agent doctor` says, or its error."""
    agh("agent", "install", name, timeout=LIMIT)
    outcome = agh("agent", "doctor", name, "-o", "json", code=None, timeout=LIMIT, cwd=tmp_path)
    report: dict[str, Any] = json.loads(outcome.stdout or outcome.stderr.splitlines()[-1])
    return report


def test_npm_installs_and_the_pinned_version_runs(agh: Agh, tmp_path: Path) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not on PATH")
    report = install_and_start(agh, tmp_path, "pi")
    assert "Could not start pi" in report["error"]["message"], "the adapter answers; pi itself is missing"
    assert "pi-acp@" in agh("agent", "show", "pi").stdout
    # Once it is installed the network is not asked again.
    offline = {**os.environ, "npm_config_registry": "http://127.0.0.1:1/"}
    again = agh("agent", "doctor", "pi", code=None, timeout=LIMIT, cwd=tmp_path, env=offline)
    assert "Could not start pi" in again.stderr


def test_npm_reports_a_version_that_does_not_exist(agh: Agh) -> None:
    if shutil.which("npm") is None:
        pytest.skip("npm is not on PATH")
    outcome = agh("agent", "install", "pi@0.0.0-none", code=1, timeout=LIMIT)
    assert "No matching version" in outcome.stderr


def test_uv_installs_and_the_pinned_version_runs(agh: Agh, tmp_path: Path) -> None:
    if shutil.which("uv") is None:
        pytest.skip("uv is not on PATH")
    agh("agent", "install", "minion-code", timeout=LIMIT)
    row = json.loads(agh("agent", "show", "minion-code", "-o", "json").stdout)["agent"]
    assert row["state"] == "installed"
    outcome = run(row["command"][0], "--help", cwd=tmp_path)
    assert outcome.returncode == 0, outcome.stderr
    assert "acp" in outcome.stdout
