"""`agh man`: the manual pages that come with agh, wherever man(1) looks."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import click

from agh.adapters.installation import shipped_path
from agh.core.suggest import closest
from agh.errors import PageNotFound

_WORD = re.compile(r"(.+?)(?:\.(\d)|\((\d)\))?")


@click.command(
    "man",
    epilog="\b\nExamples:\n  agh man\n  agh man session prompt\n  agh man 7 plugins\n  agh man agh-places",
)
@click.argument("page", nargs=-1)
def man(page: tuple[str, ...]) -> None:
    """Show a page of the manual.

    PAGE is the name of a page, or a command; a number before it is the manual's section. `man agh` works too
    if agh's pages are on your man path. Without man(1), the page is shown as plain text.
    """
    path = find_page(page)
    if not _run_man(path):
        from agh.cli.manual.text import render

        with open(path, encoding="utf-8") as file:
            text = render(file.read(), min(shutil.get_terminal_size().columns, 100) - 2)
        click.echo_via_pager(text)


def find_page(words: tuple[str, ...]) -> str:
    """Return the path of a page; raise PageNotFound, with the closest name, if there is none."""
    section = ""
    if words and words[0].isdigit():
        section, *rest = words
        words = tuple(rest)
    match = _WORD.fullmatch("-".join(words))
    name, section = (match[1], match[2] or match[3] or section) if match else ("agh", section)
    full_name = name if name == "agh" or name.startswith("agh-") else f"agh-{name}"
    pages = list_pages()
    for number in [section] if section else sorted({number for _, number in pages}):
        if (full_name, number) in pages:
            return pages[full_name, number]
    close = closest(full_name, {title for title, _ in pages})
    title = f"{full_name}({section})" if section else full_name
    raise PageNotFound(title, hint=f"agh man {close.removeprefix('agh-')}" if "-" in close else None)


def list_pages() -> dict[tuple[str, str], str]:
    """Return the paths of all pages by name and section."""
    root = shipped_path("man")
    pages: dict[tuple[str, str], str] = {}
    for folder in sorted(os.listdir(root)):
        for file in sorted(os.listdir(os.path.join(root, folder))):
            name, _, section = file.rpartition(".")
            pages[name, section] = os.path.join(root, folder, file)
    return pages


def _run_man(path: str) -> bool:
    """Show a page with man(1); return whether that worked. A minimized system has a stub in its place."""
    program = shutil.which("man")
    if program is None or os.path.exists(f"{program}.REAL"):
        return False
    sys.stdout.flush()
    return subprocess.run([program, path]).returncode == 0
