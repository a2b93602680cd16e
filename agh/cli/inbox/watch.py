"""`agh inbox --watch`: what comes into the inbox and what leaves it, and answers from the keyboard."""

from __future__ import annotations

import os
import select
import sys
import time

from agh.cli.approval import VERDICTS, key_of
from agh.cli.ask import can_ask
from agh.cli.inbox.decide import answer_entry
from agh.cli.inbox.ring import ring_for_entry
from agh.cli.inbox.view import KIND_WORDS, format_entry, reference
from agh.console import terminal
from agh.console.output import remark, write_json, write_text
from agh.errors import AghError
from agh.sessions.requests.inbox import Entry, Inbox, find_entry

INTERVAL = 1.0
READ_SIZE = 4096


def watch_inbox(output: str) -> None:
    """Print every entry as it comes in, and say when it is gone, until Ctrl-C or the end of the input."""
    shown: dict[str, Entry] = {}
    inbox, is_first = Inbox(), True
    keyboard = Keyboard() if output == "human" and can_ask() else None
    while True:
        current = {entry["key"]: entry for entry in inbox.entries()}
        added = [entry for key, entry in current.items() if key not in shown]
        for entry in added:
            _tell(entry, "added", output)
        if is_first:
            is_first = False  # what waits already is no news
            if not added and output == "human":
                remark("the inbox is empty; watching until Ctrl-C")
        elif added and sys.stderr.isatty():
            ring_for_entry(added[-1])
        for key in [key for key in shown if key not in current]:
            _tell(shown[key], "removed", output)
        shown = current
        if keyboard is None:
            time.sleep(INTERVAL)
            continue
        for line in keyboard.lines(INTERVAL):
            _take_line(line)
        if keyboard.is_closed:
            return


class Keyboard:
    """Lines as they are typed. It reads no more than there is, so that no line waits in a buffer."""

    def __init__(self) -> None:
        self.is_closed = False
        self._rest = b""

    def lines(self, limit: float) -> list[str]:
        """Return the whole lines that have been typed; wait for `limit` seconds if there is nothing."""
        if select.select([0], [], [], limit)[0]:
            data = os.read(0, READ_SIZE)
            self.is_closed = not data
            *lines, self._rest = (self._rest + data).split(b"\n")
            return [line.decode(errors="replace") for line in lines]
        return []


def _tell(entry: Entry, event: str, output: str) -> None:
    if output != "human":
        change = {"event": event, "entry": entry}
        write_json(change, lines=True)
    elif event == "added":
        write_text(format_entry(entry) + "\n")
    else:
        write_text(f"{reference(entry)}  gone  {terminal.one_line(entry['about'], 200)}\n")


def _take_line(line: str) -> None:
    """Answer as a line says: the number of a permission or a gate, and the key of the answer, as in `3 y`."""
    words = line.split()
    if not words:
        return
    verdict = VERDICTS.get(key_of(words[1], VERDICTS) or "", "") if len(words) == 2 else ""
    if not verdict:
        remark("type a number and y (allow), a (always allow), n (deny) or d (always deny), such as `3 y`")
        remark("to answer a question, run: agh inbox answer NUMBER")
        return
    try:
        entry = find_entry(words[0])
        if entry["kind"] not in ("permission", "gate"):
            remark(f"entry {reference(entry)} is {KIND_WORDS[entry['kind']]}: {entry['next'][0]}")
            return
        receipt = answer_entry(entry, verdict)
        remark(f"{reference(entry)}  {receipt['decision']}")
    except AghError as error:
        remark(f"agh: {error.message}")
