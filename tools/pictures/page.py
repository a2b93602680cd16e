"""Pictures of the page of `agh serve`, taken by Debian's chromium, on light and dark screens.

Promises: the page loads nothing but the server's own files, and shows no path of this machine.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

SIZE = {"width": 1080, "height": 620}
# The page has the temporary home's path in texts and in titles; a reader should see a plain one.
HIDE = """([path, shown]) => {
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  while (walker.nextNode()) walker.currentNode.data = walker.currentNode.data.replaceAll(path, shown)
}"""


@contextmanager
def served(env: dict[str, str], directory: str) -> Iterator[str]:
    """Run `agh serve` and yield its address with the token."""
    command = ["agh", "serve", "--port", "0"]
    server = subprocess.Popen(
        command,
        env={**env, "AGH_PLUGINS": "serve", "PYTHONUNBUFFERED": "1"},
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert server.stdout is not None
        address = server.stdout.readline().split()[-1]
        token = Path(env["AGH_HOME"], "serve.token").read_text().strip()
        yield f"{address.rstrip('/')}/#token={token}"
    finally:
        server.terminate()
        server.wait()


def take_pictures(
    env: dict[str, str], directory: str, session: str, paths: tuple[str, str], to: Path
) -> None:
    """Open a session on the page and write page-light.png and page-dark.png."""
    from playwright.sync_api import sync_playwright

    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not program:
        raise SystemExit("install chromium to take the picture of the page")
    with served(env, directory) as url, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        for background in ("light", "dark"):
            page = browser.new_page(viewport=SIZE, color_scheme=background)
            page.goto(url)
            page.locator("#list a", has_text=session).click()
            page.get_by_text("Bremerhaven lies").wait_for()
            page.get_by_role("button", name="Allow", exact=False).first.wait_for()
            page.evaluate(HIDE, list(paths))
            page.screenshot(path=to / f"page-{background}.png")
            page.close()
        browser.close()
