"""Pages as plain text: nothing of roff is left, and the words are those that man(1) shows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from agh.cli.manual.text import plain, render

ROOT = Path(__file__).parents[4]
PAGES = sorted(ROOT.glob("man/*/*"))


def test_escapes() -> None:
    assert plain(r"\fBagh \-\-help\fR isn\(aqt \(ti/x\&. \e \[u2026]") == r"agh --help isn't ~/x. \ …"


def test_layout() -> None:
    roff = '.\\" a remark\n.TH AGH 1 "" "agh"\n.SH NAME\nagh \\- run\n.SH OPTIONS\n.TP\n\\fB\\-a\\fR\nAll.\n'
    roff += ".TP\n\\fB\\-\\-longer\\fR\nIt is\nlonger.\n.PP\n.RS 4\n.nf\nagh  x\n.fi\n.RE\n.BR agh (1),\n"
    assert render(roff).splitlines() == [
        "AGH(1)",
        "",
        "NAME",
        "       agh - run",
        "",
        "OPTIONS",
        "       -a     All.",
        "",
        "       --longer",
        "              It is longer.",
        "",
        "           agh  x",
        "       agh(1),",
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_no_page_keeps_its_roff(page: Path) -> None:
    text = render(page.read_text())
    assert not re.search(r"\\f[BIR]|\\\(|\\&|^\.[A-Z]", text, flags=re.M)
    prose = [line for line in text.splitlines() if len(line) > 78 and len(line.split()) > 2]
    assert [line for line in prose if not line.startswith(" " * 7)] == []


def test_man_has_no_complaint_and_shows_the_same_words() -> None:
    """Render all pages by groff, as man calls it, and two by man itself, which is slower."""
    if shutil.which("man") is None or shutil.which("groff") is None:
        pytest.skip("no man here")
    groff = ["groff", "-K", "UTF-8", "-t", "-mtty-char", "-T", "utf8", "-mandoc", "-w", "mac", "-P", "-cbou"]
    assert_same_words([*groff, "-rLL=80n", "-rLT=80n"], PAGES)
    assert_same_words(["man", "--warnings", "-E", "UTF-8", "-l"], [PAGES[0], PAGES[-1]])


def assert_same_words(program: list[str], pages: list[Path]) -> None:
    result = subprocess.run(
        [*program, *map(str, pages)],
        env={**os.environ, "LC_ALL": "C.UTF-8", "MANWIDTH": "80"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (result.returncode, result.stderr) == (0, "")
    _, *texts = re.split(r"^(?=(AGH[A-Z-]*\(\d\)) .* \1$)", result.stdout, flags=re.M)
    shown = dict(zip(texts[::2], texts[1::2], strict=True))
    assert list(shown) == [f"{page.stem.upper()}({page.suffix[1:]})" for page in pages]
    for page, text in zip(pages, shown.values(), strict=True):
        top, *lines = text.rstrip().splitlines()
        bottom = -1 if lines[-1].endswith(top.split()[0]) else None  # groff puts it under the last page only
        words = "".join(re.split(r"[\s‐-]+", "\n".join(lines[:bottom])))
        ours = "".join(re.split(r"[\s‐-]+", render(page.read_text()).partition("\n")[2]))
        assert ours.replace("…", "...") == words.replace("…", "...").replace("’", "'"), page.name
