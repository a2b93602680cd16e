"""Notifications on the terminal of a command: the bell, and OSC sequences that terminals show as a popup.

Promises: what is written can only notify. Text is cleaned of control characters and secrets first. A terminal
that cannot be written to, or settings that cannot be read, change nothing about the command.
"""

from __future__ import annotations

import os
import sys

from agh.adapters.redactions import redactor_for
from agh.config import load
from agh.console import terminal
from agh.core.acp.permission import headline
from agh.core.events import Row
from agh.core.settings.notify import Notify
from agh.errors import AghError
from agh.home import Session
from agh.sessions.requests.inbox import Entry
from agh.store import meta

LONGEST = 200
BELL = "\a"
WORDS = {
    "needs_you": "needs you",
    "failed": "failed in a turn",
    "limited": "reached a usage limit",
    "turn_end": "ended its turn",
}
EVENT_OF_KIND = {"failure": "failed", "limited": "limited"}  # all others need the user


def ring_for_row(event: str, session: Session, row: Row, elapsed: float = 0.0) -> None:
    """Notify of a request in a turn, or of the turn's end."""
    try:
        notify = load(None)["notify"]
        metadata = meta.read(session)
    except AghError:
        return
    if notify is None or (event == "turn_end" and elapsed < notify.turn_end_after):
        return
    content = row.parsed()
    words = WORDS[event]
    text = str(content.get("message") or content.get("error") or "")
    if row.type == "permission":
        text = headline(content)
    label = metadata.get("name") or metadata.get("title") or session.id
    ring(notify, event, f"{label} {words}", text)


def ring_for_entry(entry: Entry) -> None:
    """Notify of an entry that came into the inbox."""
    try:
        notify = load(None)["notify"]
    except AghError:
        return
    if notify is not None:
        event = EVENT_OF_KIND.get(entry["kind"], "needs_you")
        ring(notify, event, f"{entry['name'] or entry['session_id']}: {entry['kind']}", entry["about"])


def ring(notify: Notify, event: str, title: str, text: str) -> None:
    """Write the bell and the OSC sequence that the settings ask for to the terminal on stderr."""
    if event not in notify.events or not sys.stderr.isatty():
        return
    hide = redactor_for(os.environ, None, plugins=False).text
    clean_title, clean_text = (terminal.one_line(hide(words), LONGEST) for words in (title, text))
    data = (sequence(notify.osc, clean_title, clean_text) if notify.osc else "") + (
        BELL if notify.bell else ""
    )
    try:
        sys.stderr.write(data)
        sys.stderr.flush()
    except OSError:
        pass


def sequence(kind: str, title: str, text: str) -> str:
    """Return the OSC sequence of a kind for text that has already been cleaned."""
    if kind == "777":
        return f"\x1b]777;notify;{title.replace(';', ',')};{text.replace(';', ',')}\x1b\\"
    if kind == "99":
        return f"\x1b]99;i=agh:d=0;{title}\x1b\\\x1b]99;i=agh:p=body;{text}\x1b\\"
    return f"\x1b]9;{title}{text and ': '}{text}\x1b\\"
