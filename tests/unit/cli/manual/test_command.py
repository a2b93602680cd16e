"""`agh man`: a page is found by its name or by the words of a command, with and without man(1)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from agh.cli.manual.command import find_page
from agh.errors import PageNotFound
from tests.support.program import AGH, Agh


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("", "man1/agh.1"),
        ("agh", "man1/agh.1"),
        ("session prompt", "man1/agh-session-prompt.1"),
        ("session-prompt", "man1/agh-session-prompt.1"),
        ("agh-session-prompt", "man1/agh-session-prompt.1"),
        ("agh session prompt", "man1/agh-session-prompt.1"),
        ("plugins", "man1/agh-plugins.1"),
        ("7 plugins", "man7/agh-plugins.7"),
        ("plugins.7", "man7/agh-plugins.7"),
        ("agh-plugins(7)", "man7/agh-plugins.7"),
        ("config", "man1/agh-config.1"),
        ("5 config", "man5/agh-config.5"),
        ("tutorial", "man7/agh-tutorial.7"),
        ("1 run", "man1/agh-run.1"),
        ("places", "man7/agh-places.7"),
        ("serve", "man1/agh-serve.1"),
    ],
)
def test_names_of_pages(words: str, page: str) -> None:
    assert find_page(tuple(words.split())).endswith(f"man/{page}")


@pytest.mark.parametrize(
    ("words", "hint"),
    [("sesion prompt", "agh man session-prompt"), ("7 run", None), ("xyzzy", "agh man"), ("..", None)],
)
def test_a_page_that_is_not_there(words: str, hint: str | None) -> None:
    with pytest.raises(PageNotFound) as caught:
        find_page(tuple(words.split()))
    assert hint is None or caught.value.hint == hint


def test_with_man(agh: Agh) -> None:
    if shutil.which("man") is None:
        pytest.skip("no man here")
    text = agh("man", "session", "prompt").stdout
    assert "AGH-SESSION-PROMPT(1)" in text
    assert "EXAMPLES" in text


def test_without_man(agh: Agh, tmp_path: Path) -> None:
    without = {**os.environ, "PATH": str(Path(AGH).parent)}
    assert shutil.which("man", path=without["PATH"]) is None
    text = agh("man", "7", "plugins", env=without).stdout
    assert text.startswith("AGH-PLUGINS(7)\n\nNAME\n")


@pytest.mark.parametrize("kind", ["stub", "broken"])
def test_a_man_that_shows_nothing(agh: Agh, tmp_path: Path, kind: str) -> None:
    """A minimized system has a stub in the place of man; the real one has moved aside."""
    stub = tmp_path / "man"
    stub.write_text("#!/bin/sh\n" + ("echo minimized\n" if kind == "stub" else "exit 3\n"))
    stub.chmod(0o755)
    if kind == "stub":
        (tmp_path / "man.REAL").touch()
    text = agh("man", "run", env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}).stdout
    assert text.startswith("AGH-RUN(1)\n")


def test_an_unknown_page_exits_4(agh: Agh) -> None:
    assert agh("man", "nonsense", code=4).stderr.startswith("agh: there is no manual page agh-nonsense\n")
