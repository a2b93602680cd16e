"""Files in a prompt: which words name one, and which files Tab offers."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from agh.cli.chat.files import WorkspaceFiles, blocks_of, list_files, references
from agh.home import session_of
from tests.support.build import Home, conversation


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        ("read @a.txt", ["a.txt"]),
        ('look at @"my file.txt", please', ["my file.txt"]),
        ("(see @src/a.py).", ["src/a.py"]),
        ("see @src/a.py.", ["src/a.py"]),
        ("write to me@example.org", []),
        ("@a @b", ["a", "b"]),
    ],
)
def test_references(text: str, paths: list[str]) -> None:
    assert references(text) == paths


def test_git_decides_what_is_offered(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    for name in ("tracked.py", "new.py", "ignored.log", "src/deep.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / ".gitignore").write_text("*.log\n")
    subprocess.run(["git", "-C", str(tmp_path), "add", "tracked.py"], check=True)
    assert set(list_files(str(tmp_path))) == {".gitignore", "tracked.py", "new.py", "src/deep.py"}
    files = WorkspaceFiles(str(tmp_path))
    assert files.matching("de") == ["src/deep.py"]
    assert files.matching("src/") == ["src/deep.py"]
    assert files.matching("ew") == ["new.py"]


def test_without_git_everything_but_clutter_is_offered(tmp_path: Path) -> None:
    for name in ("a.txt", "node_modules/b.txt", "src/c.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    assert set(list_files(str(tmp_path))) == {"a.txt", "src/c.txt"}


def test_what_is_no_file_stays_a_word(home: Home, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("remember")
    caps = {"promptCapabilities": {"image": True, "embeddedContext": True}}
    session = session_of(home.session(conversation(), workspace_path=str(tmp_path), acp_caps=caps).name)
    text, *attached = blocks_of("read @notes.md and @nobody", session)
    assert text == {"type": "text", "text": "read @notes.md and @nobody"}
    assert [block["resource"]["text"] for block in attached] == ["remember"]
    (tmp_path / "a b.png").write_bytes(b"\x89PNG")
    kinds = [block["type"] for block in blocks_of("what is this?\n'a b.png'\n@notes.md", session)]
    assert kinds == ["text", "resource", "image"]
