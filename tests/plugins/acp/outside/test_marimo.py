"""marimo's page in a browser, over the bridge of marimo's settings. `make acp-marimo` installs marimo."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.live import Live, Session
from tests.support.wait import PATIENCE, wait_until

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed; make acp-marimo")

VENV = Path(__file__).parents[4] / ".venv"
MARIMO = VENV / "marimo" / "bin" / "marimo"
BRIDGES = VENV / "acp-sdk" / "node_modules" / ".bin"
CHROMIUM = shutil.which("chromium") or shutil.which("google-chrome")
NOTEBOOK = "import marimo\napp = marimo.App()\n\n@app.cell\ndef _():\n    x = 1\n    return\n"
STREAM = "".join(f"chunk {number} ".ljust(12, ".") for number in range(1, 61))


def answers(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def running(command: list[str], port: int, **options: object) -> Iterator[None]:
    """Run a server in the block; it listens on this port."""
    if answers(port):
        pytest.fail(f"port {port} is in use")
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **options,  # type: ignore[call-overload]
    )
    try:
        wait_until(lambda: answers(port), 2 * PATIENCE, what=command)
        yield
    finally:
        process.terminate()
        process.wait(PATIENCE)


@pytest.fixture
def address(live: Live, tmp_path: Path) -> Iterator[str]:
    """Yield the address of a notebook whose Claude agent is agh, as the printed settings make it."""
    if CHROMIUM is None or not MARIMO.exists():
        pytest.skip("marimo or chromium is missing; make acp-marimo")
    settings = live.agh("acp", "--agent", "echo", "--print-config", "marimo").stdout
    (line,) = [line for line in settings.splitlines() if line.startswith("npx ")]
    search = os.pathsep.join([str(Path(sys.executable).parent), str(BRIDGES), os.environ["PATH"]])
    bridge = {"env": {**live._environ(None), "PATH": search}, "cwd": live.workspace}
    user = {**os.environ, "HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    (tmp_path / "config" / "marimo").mkdir(parents=True)
    switch = "\n".join(line.lstrip("# ") for line in settings.splitlines() if line.startswith("#   "))
    (tmp_path / "config" / "marimo" / "marimo.toml").write_text(switch)
    (live.workspace / "book.py").write_text(NOTEBOOK)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = int(listener.getsockname()[1])
    command = [str(MARIMO), "edit", "book.py", "--headless", "--no-token", "--skip-update-check"]
    with (
        running(shlex.split(line)[1:], int(line.split()[-1]), **bridge),
        running([*command, "--port", str(port)], port, cwd=live.workspace, env=user),
    ):
        yield f"http://127.0.0.1:{port}/"


class Browser:
    """Chromium as a process of its own, with a profile that outlives it, and its page."""

    def __init__(self, playwright: sync_api.Playwright, profile: Path, address: str) -> None:
        options = [
            "--headless=new",
            "--no-sandbox",
            "--remote-debugging-port=0",
            f"--user-data-dir={profile}",
        ]
        port_file = profile / "DevToolsActivePort"
        port_file.unlink(missing_ok=True)
        self._process = subprocess.Popen(
            [str(CHROMIUM), *options, "--remote-debugging-port=0", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: port_file.exists() and port_file.read_text().count("\n"), what="the browser")
        port, path = port_file.read_text().splitlines()
        browser = playwright.chromium.connect_over_cdp(f"ws://127.0.0.1:{port}{path}")
        self.page = browser.contexts[0].pages[0]
        self.page.set_default_timeout(PATIENCE * 1000)
        self.page.set_viewport_size({"width": 1400, "height": 900})
        self.page.goto(address, wait_until="networkidle")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.kill()

    def kill(self) -> None:
        self._process.kill()
        self._process.wait(PATIENCE)

    def say(self, text: str) -> None:
        """Type a prompt into the agent's box when it takes one, and send it."""
        self.page.locator(".cm-content").filter(has_text="Ask anything").click()
        self.page.keyboard.type(text)
        self.page.keyboard.press("Enter")

    def shows(self, text: str) -> None:
        sync_api.expect(self.page.locator("body")).to_contain_text(text, timeout=PATIENCE * 1000)

    def press(self, name: str) -> None:
        self.page.get_by_role("button", name=name, exact=True).first.click()

    def open_session(self) -> str:
        """Open a new session of marimo's Claude agent; return its id."""
        self.page.locator("[aria-label='Sidebar panels'] svg.lucide-bot").click()
        self.page.reload(wait_until="networkidle")  # marimo leaves a pane that was just opened inert
        self.page.get_by_role("tab", name="Agents").click()
        self.press("New session")
        self.page.get_by_role("menuitem", name="New Claude session").click()
        label = self.page.get_by_text(re.compile("Session ID: sess-"))
        return str(label.first.inner_text()).split()[-1]


def is_stored(profile: Path, session_id: str) -> bool:
    """Return whether the browser has written the page's storage, with this session, to its disk."""
    files = (profile / "Default" / "Local Storage" / "leveldb").glob("*.log")
    return any(session_id.encode() in file.read_bytes() for file in files)


@pytest.mark.timeout(300)  # the browser takes its time to store the page's state
def test_marimo_uses_a_session_and_loads_it_after_a_kill(live: Live, address: str, tmp_path: Path) -> None:
    (live.workspace / "notes.txt").write_text("on disk")
    profile = tmp_path / "profile"
    with sync_api.sync_playwright() as playwright:
        with Browser(playwright, profile, address) as browser:
            session = live.session(browser.open_session())
            use_session(browser, session)
            wait_until(lambda: is_stored(profile, session.id), 4 * PATIENCE, what="the page's storage")
            browser.say("/stream 60 0.05 12")
            browser.shows(STREAM[:40])
            assert {status for status, _ in session.inputs()} == {"sent", "dispatching"}
        session.wait_idle()
        assert session.text().endswith(STREAM)
        with Browser(playwright, profile, address) as browser:
            for text in ["hello from marimo", "echo: from the terminal", "permission: reject_once", STREAM]:
                browser.shows(text)
            browser.say("what did i say?")
            browser.shows("hello from marimo")
            browser.shows(" user texts: ")
    assert [each.id for each in live.sessions()] == [session.id]
    assert session.is_live()
    session.check_log()


def use_session(browser: Browser, session: Session) -> None:
    """Prompt, change the mode, read and change a file, answer requests, cancel."""
    browser.say("hello from marimo")
    browser.shows("echo: hello from marimo")
    browser.page.get_by_role("combobox").filter(has_text="Ask").click()
    browser.page.get_by_role("option", name="Code").click()
    wait_until(lambda: session.meta().get("mode") == "code", what="the mode")
    browser.say("/settings")
    browser.shows("mode=code")
    browser.say("/read notes.txt")
    browser.shows("read notes.txt: on disk")
    browser.say("/change notes.txt by the agent")
    browser.press("allow_once")
    browser.shows("change notes.txt: ok")
    assert (session.live.workspace / "notes.txt").read_text() == "by the agent"
    browser.say("/ask Write the file")
    browser.press("reject once")
    browser.shows("permission: reject_once")
    session.wait_idle()
    session.tell("from the terminal")
    browser.shows("echo: from the terminal")
    browser.say("/stream 1000 0.05")
    browser.shows("chunk 2 chunk 3")
    browser.press("Stop")
    session.wait_idle()
    assert session.events("done")[-1].content["stop_reason"] == "cancelled"
