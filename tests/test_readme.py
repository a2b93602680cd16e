"""The README and the tutorial as a new user reads them: every `sh` block is pasted into one shell.

A block that needs what a new user may not have (another machine, a waiting agent) is marked `shell`; its
commands and options are checked with all other examples.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agh.home import Session
from agh.keeper import client
from agh.store import lock
from tests.support.program import AGH
from tests.support.wait import PATIENCE

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```sh\n(.*?)^```$", README, flags=re.M | re.S)
TUTORIAL = re.findall(r"^```sh\n(.*?)^```$", (ROOT / "docs/tutorial.md").read_text(), flags=re.M | re.S)
MOST_LINES, MOST_ROWS = 170, 12


@pytest.fixture
def user(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Someone with a project of their own, who has never run agh."""
    project = tmp_path / "user" / "project"
    project.mkdir()
    env = {
        "HOME": str(tmp_path / "user"),
        "PATH": f"{Path(AGH).parent}{os.pathsep}/usr/local/bin:/usr/bin:/bin",
        "AGH_HOME": str(tmp_path / "agh"),
        "LC_ALL": "C.UTF-8",
        "GIT_AUTHOR_NAME": "me",
        "GIT_COMMITTER_NAME": "me",
        "EMAIL": "me@example.org",
    }
    commit = "git init -q && echo hello > notes && git add notes && git commit -qm 'say hello'"
    subprocess.run(["bash", "-c", commit], cwd=project, env=env, check=True, timeout=30)
    yield env
    for path in (tmp_path / "agh" / "sessions").glob("sess-*"):
        if lock.is_held(session := Session.at(path)):
            client.call(session, "stop", limit=PATIENCE)


def test_there_are_the_blocks_we_think() -> None:
    assert len(TUTORIAL) == 7
    assert {line.split()[1] for line in BLOCKS[0].splitlines()} == {"demo", "test"}
    recipes = README.partition("\n## Recipes\n")[2].partition("\n## ")[0]
    assert recipes.count("\n### ") == 5
    assert len(re.findall(r"^```sh$", recipes, flags=re.M)) == 4  # the last one needs other machines


def test_the_two_commands_are_there() -> None:
    text = (ROOT / "Makefile").read_text()
    assert re.search(r"^demo:", text, flags=re.M)
    assert re.search(r"^test:", text, flags=re.M)


@pytest.mark.slow
def test_every_block_works_as_it_stands_and_once_more(user: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "agh").mkdir(mode=0o700)
    (tmp_path / "agh" / "config.toml").write_text('agent = "echo"\n')  # whatever else is installed here
    blocks = [block for block in BLOCKS[1:] if "jq" not in block or shutil.which("jq")]
    script = "\n".join(f"echo '--- {number}'\n{block}" for number, block in enumerate(blocks))
    project = Path(user["HOME"]) / "project"
    for number in (1, 2):
        result = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script],
            cwd=project,
            env=user,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=110,
        )
        assert result.returncode == 0, (number, result.stdout, result.stderr)
        assert "echo: why does the login test fail?" in result.stdout
        assert "<html" in (project / "fix-login.html").read_text()
        assert "say hello" in (project / "notes.md").read_text()
        assert "idle\tfix-login\n" in result.stdout or not shutil.which("jq")
        assert '"go on"' in result.stdout.rpartition("\nSEEN ")[2]
        assert result.stdout.count("--- ") == len(blocks)
        called = subprocess.run(
            [AGH, "ls", "--all", "-o", "json"],
            env=user,
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
        names = [(view["name"], view["archived"]) for view in json.loads(called.stdout)["sessions"]]
        assert names.count(("fix-login", False)) == 1
        assert names.count(("fix-login", True)) == number - 1


@pytest.mark.slow
def test_the_tutorial_works_as_it_stands_and_once_more(user: dict[str, str]) -> None:
    if not shutil.which("jq"):
        pytest.skip("jq is not installed")
    for number in (1, 2):
        result = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", "\n".join(TUTORIAL)],
            cwd=Path(user["HOME"]) / "project",
            env=user,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=110,
        )
        assert result.returncode == 0, (number, result.stdout, result.stderr)
        assert "echo: where were we?" in result.stdout
        assert '"where were we?"' in result.stdout.rpartition("\nSEEN ")[2]


def test_it_is_short() -> None:
    assert len(README.splitlines()) <= MOST_LINES
    tables = re.findall(r"(?:^\|.*\n)+", README, flags=re.M)
    assert [table for table in tables if len(table.splitlines()) - 2 > MOST_ROWS] == []


def test_the_first_screen_says_what_only_agh_does() -> None:
    screen = "\n".join(README.splitlines()[:24])
    assert [
        word for word in ("kill -9", "Claude", "Codex", "jq", "SQL", "editor") if word not in screen
    ] == []


def test_the_pictures_are_there_and_need_nothing() -> None:
    paths = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", README)
    paths += re.findall(r'(?:src|srcset)="([^"]+)"', README)
    assert len(paths) > 2
    for path in paths:
        if path.endswith(".png"):
            assert (ROOT / path).read_bytes().startswith(b"\x89PNG")
            continue
        picture = (ROOT / path).read_text()
        assert picture.startswith("<svg")
        assert set(re.findall(r"https?://[^\"' )]+", picture)) == {"http://www.w3.org/2000/svg"}


def test_links_and_files_that_are_named_exist() -> None:
    names = re.findall(r"`((?:plugins|tools|agh)/[\w/.-]+|[A-Z]+\.md)`", README)
    links = re.findall(r"\]\(([\w/.-]+)(?:#[\w-]+)?\)", README)
    assert len(links) > 10
    assert [name for name in names + links if not (ROOT / name).exists()] == []


def test_the_place_of_the_bench_table() -> None:
    page = (ROOT / "docs/benchmarks.md").read_text()
    assert page.count("<!-- bench -->") == page.count("<!-- /bench -->") == 1
    assert page.index("<!-- bench -->") < page.index("<!-- /bench -->")
