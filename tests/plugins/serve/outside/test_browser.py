"""The page in a real browser: list, open, live update, requests, reload, restart of the server, keys.

`SCREENSHOTS=DIR make browser` leaves pictures of it there: light, dark, and as narrow as a phone.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.plugins.serve.server import Server, serve
from tests.support.build import Home, finishes, says, user
from tests.support.live import Live, Session
from tests.support.questions import form
from tests.support.wait import wait_until

# Requests to the page's own server, and what the browser says of one that fails.
HARMLESS = ("http://127.0.0.1:", "data:", "Failed to load resource")
TALK = """Where does the session end?
/think The keeper writes the last event; look there first.
/tool Read path=agh/keeper/ending.py kind=read def end_session(live): ...
/tool-fail Bash kind=execute error: 1 test failed
/edit notes.md # Notes\\n\\nThe stop path is linear.\\n
/say The session ends in **three steps**:
/say
/say 1. the turn is cancelled,
/say 2. the agent gets `SIGTERM`, then `SIGKILL`,
/say 3. one `session_stopped` is written.
/usage 1200 340 0.42"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert program, "install chromium"
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    """Yield a page that may load nothing but the server's own, and on which nothing fails."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    problems: list[str] = []
    page = context.new_page()
    page.set_default_timeout(15_000)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text))
    page.on("request", lambda request: problems.append(request.url))
    yield page
    context.close()
    assert [problem for problem in problems if not problem.startswith(HARMLESS)] == []


def visit(page: Page, server: Server) -> None:
    page.goto(f"{server.address}/#token={server.token}")
    expect(page.locator("#list a").first).to_be_visible()


def open_session(page: Page, name: str) -> None:
    page.locator("#list a", has_text=name).click()
    expect(page.locator("#title")).to_have_text(name)


def numbers(page: Page) -> list[float]:
    page_numbers: list[float] = page.eval_on_selector_all(
        "#transcript > *", "all => all.map(e => +e.dataset.number)"
    )
    return page_numbers


def no_duplicate_none_missing(page: Page, server: Server, session: Session) -> None:
    """The page has the elements that the server would send to a fresh one, in order, and what they say."""
    with server.stream(f"/api/sessions/{session.id}/view?turns=0") as frames:
        elements: dict[float, str] = {}
        for frame in frames:
            if frame.event == "elements":
                elements |= {element["number"]: element["html"] for element in frame.data}
            if frame.event == "ready":
                break
    wait_until(lambda: numbers(page) == sorted(elements), what="the page has every element")
    assert page.locator("#transcript").inner_text().count("chunk 7 ") == session.text().count("chunk 7 ")


def test_list_open_and_live(page: Page, live: Live, server: Server) -> None:
    session = live.new(args=("--name", "fix-login"))
    session.tell("/usage 10 5 0.42\n/say ready")
    visit(page, server)
    assert "token" not in page.url
    row = page.locator("#list a")
    for text in ("fix-login", "idle", "echo", "work", "$0.42"):
        expect(row).to_contain_text(text)
    open_session(page, "fix-login")
    expect(page.locator("#transcript")).to_contain_text("ready")
    page.locator("#text").fill("/stream 60 0.05\n/say finished")
    page.locator("#text").press("Enter")
    expect(page.locator("#badge")).to_have_text("running")
    expect(page.locator("#working")).to_be_visible()
    expect(page.locator("#transcript")).to_contain_text("chunk 5 ")
    assert "finished" not in session.text()  # it is shown while the turn runs
    expect(page.locator("#text")).to_have_value("")
    expect(page.locator("#transcript article").last).to_contain_text("finished")
    expect(page.locator("#badge")).to_have_text("idle")
    no_duplicate_none_missing(page, server, session)
    page.locator("#text").fill("/sleep 60")
    page.locator("#send").click()
    page.locator("#cancel").click()
    expect(page.locator("#transcript")).to_contain_text("the turn was cancelled")
    page.locator("#stop").click()
    expect(page.locator("#badge")).to_have_text("stopped")
    page.locator("#resume").click()
    expect(page.locator("#badge")).to_have_text("idle")
    assert session.meta()["attach"] is None  # the page leaves the session to whoever attaches
    session.tell("from elsewhere")
    expect(page.locator("#transcript")).to_contain_text("echo: from elsewhere")


def test_times_are_local(browser: Browser, live: Live, server: Server) -> None:
    live.new(args=("--name", "clock")).tell("hello")
    context = browser.new_context(timezone_id="Asia/Kolkata")
    page = context.new_page()
    visit(page, server)
    open_session(page, "clock")
    time = page.locator("#transcript time").first
    stored = datetime.fromisoformat(time.get_attribute("datetime") or "")
    expect(time).to_have_text(f"{stored + timedelta(hours=5, minutes=30):%H:%M:%S}")
    context.close()


@pytest.mark.parametrize("width", [800, 1080, 1280])
def test_nothing_is_cut_off(page: Page, live: Live, server: Server, width: int) -> None:
    live.new(args=("--name", "wide"))
    page.set_viewport_size({"width": width, "height": 700})
    visit(page, server)
    open_session(page, "wide")
    box = page.locator("#send").bounding_box()
    assert box and box["x"] + box["width"] <= width


def test_a_permission_is_approved(page: Page, live: Live, server: Server) -> None:
    session = live.new(args=("--name", "deploy"))
    visit(page, server)
    open_session(page, "deploy")
    expect(page.locator("#empty")).to_be_visible()
    session.send("/ask path=release.txt Write <i>release.txt</i>\n/ask path=other.txt Write other.txt")
    card = page.locator(".ask")
    expect(card).to_contain_text("Write <i>release.txt</i>")
    expect(card).to_contain_text("release.txt")
    assert page.title().startswith("●")
    page.keyboard.press("a")
    expect(card.get_by_role("button", name="Allow", exact=True)).to_be_focused()
    page.keyboard.press("Enter")
    expect(card).to_contain_text("other.txt")
    card.get_by_role("button", name="Deny", exact=True).click()
    expect(card).to_have_count(0)
    expect(page.locator("#transcript")).to_contain_text("permission: reject_once")
    assert [event.content.get("decided_by") for event in session.events("permission")][1] == "http"


def test_a_question_is_answered(page: Page, live: Live, server: Server) -> None:
    session = live.new(args=("--name", "paint"))
    visit(page, server)
    open_session(page, "paint")
    size = {"type": "integer", "title": "How large", "minimum": 2}
    colour = {"type": "string", "enum": ["red", "blue"], "description": "Of the <i>door</i>."}
    step = form(
        "What <b>shall</b> it be?", ("size", "colour"), size=size, colour=colour, sure={"type": "boolean"}
    )
    session.send(step)
    card = page.locator(".ask")
    expect(card).to_contain_text("What <b>shall</b> it be?")
    expect(card).to_contain_text("Of the <i>door</i>.")
    assert page.title().startswith("●")
    page.keyboard.press("a")
    expect(card.get_by_label("How large")).to_be_focused()
    page.keyboard.type("1")
    card.locator("select").first.select_option("blue")
    card.get_by_role("button", name="Answer").click()
    expect(page.locator("#problem")).to_contain_text("at least 2")
    card.get_by_label("How large").fill("3")
    card.get_by_role("button", name="Answer").click()
    expect(card).to_have_count(0)
    expect(page.locator("#transcript")).to_contain_text('form: accept {"size": 3, "colour": "blue"}')
    session.send("/elicit Another one?")
    card.get_by_role("button", name="Decline").click()
    expect(page.locator("#transcript")).to_contain_text("elicit: decline {}")
    assert [event.content.get("decided_by") for event in session.events("question")][1::2] == ["http"] * 2


def test_a_link_is_opened_by_its_button_only(page: Page, live: Live, server: Server) -> None:
    session = live.new(args=("--name", "login"))
    visit(page, server)
    open_session(page, "login")
    url = f"{server.address}/transcript.css?opened"
    session.send(f"/link {url} Please log in.")
    expect(page.locator(".ask")).to_contain_text(url)
    assert len(page.context.pages) == 1
    with page.context.expect_page() as opened:
        page.get_by_role("button", name="Open the link").click()
    expect(page.locator("#transcript")).to_contain_text("link: accept {}")
    assert opened.value.url == url
    opened.value.close()


def test_an_orphaned_question_resumes_its_session(page: Page, live: Live, server: Server) -> None:
    session = live.new(args=("--name", "killed"))
    session.send("/elicit Which one?")
    wait_until(lambda: session.fetch("SELECT 1 FROM questions WHERE status = 'pending'"))
    session.kill_keeper()
    visit(page, server)
    open_session(page, "killed")
    card = page.locator(".ask")
    expect(card).to_contain_text("Before it was interrupted")
    card.locator("input").fill("that one")
    card.get_by_role("button", name="Answer").click()
    expect(page.locator("#transcript")).to_contain_text("- answer: that one")
    expect(card).to_have_count(0)


def test_reload_and_restart_of_the_server(page: Page, live: Live) -> None:
    server = serve(live)
    session = live.new(args=("--name", "long"))
    visit(page, server)
    open_session(page, "long")
    turn = session.send("\n".join(["/stream 10 0.05", "/tool Read path=a.txt x"] * 8))
    expect(page.locator("#transcript")).to_contain_text("chunk 10")
    page.reload()
    expect(page.locator("#title")).to_have_text("long")
    expect(page.locator("#transcript")).to_contain_text("chunk 10")
    server.process.kill()
    expect(page.locator("#banner")).to_be_visible()
    wait_until(lambda: session.has_ended(turn))
    server = serve(live, "--port", server.port)
    expect(page.locator("#banner")).to_be_hidden()
    expect(page.locator("#badge")).to_have_text("idle")
    no_duplicate_none_missing(page, server, session)
    session.tell("after it all")
    expect(page.locator("#transcript")).to_contain_text("echo: after it all")
    no_duplicate_none_missing(page, server, session)


def test_search_and_keys(page: Page, server: Server, home: Home, live: Live) -> None:
    now = "2999-01-01T00:00:00.000Z"
    home.session(
        [user("find the needle"), says("a needle, and **hay**"), finishes()], name="alpha", updated_at=now
    )
    home.session(
        [user("other things"), says("nothing"), finishes()], name="beta", updated_at="2998" + now[4:]
    )
    visit(page, server)
    expect(page.locator("#list a")).to_have_count(2)
    page.keyboard.press("/")
    page.keyboard.type("BET echo"[:3])
    expect(page.locator("#list a")).to_have_count(1)
    page.keyboard.press("Enter")
    expect(page.locator("#title")).to_have_text("beta")
    page.keyboard.press("Escape")
    expect(page.locator("#list a")).to_have_count(2)
    page.keyboard.press("Escape")
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page.locator("#title")).to_have_text("alpha")
    expect(page.locator("#transcript article")).to_have_count(2)
    page.keyboard.press("f")
    page.keyboard.type("hay")
    expect(page.locator("#transcript article:visible")).to_have_count(1)
    expect(page.locator("#found")).to_have_text("1 of 2")
    page.keyboard.press("Escape")
    expect(page.locator("#transcript article:visible")).to_have_count(2)
    page.keyboard.press("p")
    expect(page.locator("#text")).to_be_focused()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.locator("#search").fill("no such session")
    expect(page.locator("#list")).to_contain_text("No session matches.")


def test_a_long_session_shows_its_beginning_on_demand(
    page: Page, server: Server, home: Home, live: Live
) -> None:
    drafts = [
        draft
        for n in range(70)
        for draft in (user(f"ask {n}.", f"t{n}"), says(f"yes {n}.", f"t{n}"), finishes(f"t{n}"))
    ]
    home.session(drafts, name="long", updated_at="2999-01-01T00:00:00.000Z")
    visit(page, server)
    open_session(page, "long")
    expect(page.locator("#transcript article")).to_have_count(40)
    expect(page.locator("#transcript article").last).to_be_in_viewport()
    expect(page.locator("#earlier")).to_have_text("Show earlier (50 more prompts)")
    page.locator("#earlier").click()
    expect(page.locator("#transcript article")).to_have_count(140)
    expect(page.locator("#transcript article").first).to_contain_text("ask 0.")
    expect(page.locator("#earlier")).to_be_hidden()
    assert numbers(page) == sorted(numbers(page))


def test_hostile_text_and_a_wrong_token(page: Page, server: Server, home: Home, live: Live) -> None:
    evil = "<img src=x onerror=alert(1)><script>alert(1)</script>\u202e"
    home.session(
        [user(evil), says(evil), finishes()], name="evil", title=evil, updated_at="2999-01-01T00:00:00.000Z"
    )
    page.goto(f"{server.address}/#token=not-the-token-at-all")
    expect(page.locator("#login")).to_be_visible()
    page.locator("#token").fill(server.token)
    page.keyboard.press("Enter")
    open_session(page, "evil")
    expect(page.locator("#transcript article")).to_have_count(2)
    assert page.locator("#transcript img, #transcript script").count() == 0


def test_narrow(browser: Browser, server: Server, live: Live) -> None:
    live.new(args=("--name", "small")).tell("hello\n/tool Read path=" + "x" * 200 + " " + "wide " * 100)
    context = browser.new_context(viewport={"width": 360, "height": 700}, has_touch=True, is_mobile=True)
    page = context.new_page()
    visit(page, server)
    expect(page.locator("#session")).to_be_hidden()
    open_session(page, "small")
    expect(page.locator("#side")).to_be_hidden()
    expect(page.locator("#transcript article").last).to_be_visible()
    width: Any = page.evaluate("document.documentElement.scrollWidth")
    assert width == 360
    page.locator("#back").click()
    expect(page.locator("#side")).to_be_visible()
    context.close()


@pytest.mark.skipif("SCREENSHOTS" not in os.environ, reason="SCREENSHOTS names no directory")
def test_pictures(browser: Browser, server: Server, live: Live) -> None:
    place = Path(os.environ["SCREENSHOTS"])
    live.new(args=("--name", "fix-login")).tell(TALK)
    stopped = live.new(args=("--name", "docs-tour"))
    stopped.tell("hello")
    stopped.stop()
    live.new(args=("--name", "flaky-agent")).prompt("/crash", code=None)
    live.new(args=("--name", "long-run")).send("/stream 5000 0.1")
    asking = live.new(args=("--name", "deploy"))
    asking.send(
        "Ship it.\n/say I write the release file first.\n/ask kind=edit path=release.txt Write release.txt"
    )
    wait_until(lambda: asking.fetch("SELECT 1 FROM permissions"))
    for scheme in ("light", "dark"):
        for name, width in (("wide", 1280), ("narrow", 390)):
            size: Any = {"width": width, "height": 800}
            context = browser.new_context(viewport=size, color_scheme=scheme)
            page = context.new_page()
            visit(page, server)
            page.screenshot(path=place / f"{scheme}-{name}-list.png")
            for session in ("fix-login", "deploy", "long-run", "flaky-agent"):
                page.goto(f"{server.address}/#/")
                open_session(page, session)
                expect(page.locator("#transcript article").last).to_be_visible()
                expect(page.locator("#badge")).not_to_have_text(re.compile("…"))
                page.screenshot(path=place / f"{scheme}-{name}-{session}.png", animations="disabled")
            context.close()
