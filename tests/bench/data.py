"""Homes full of sessions, made in seconds: metadata written directly, logs copied from one template."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import orjson

from agh.core.events import SCHEMA, Draft, timestamp
from agh.home import Session, make_private_dir
from agh.store import milestones
from agh.store.create import create_log
from agh.store.lock import take
from agh.store.writer import Writer
from tests.support.build import Home, calls, conversation, finishes, returns, says, user

BATCH, TURN = 2_000, 500
ROWS_ID = "sess-rows000000"


def use(path: Path) -> Home:
    """Return a home that the programs we start will find."""
    os.environ["AGH_HOME"] = str(path)
    return Home(path)


def metadata(session_id: str, number: int, **fields: Any) -> bytes:
    """Return what a keeper would have written, in size and shape."""
    at = timestamp(datetime.now(UTC) - timedelta(seconds=number * 7))
    return orjson.dumps(
        {
            "id": session_id,
            "name": f"session number {number}",
            "title": "Explain the stop path and fix what is wrong with it",
            "agent_name": ("claude", "codex", "gemini")[number % 3],
            "command": ["npx", "-y", "@zed-industries/claude-code-acp"],
            "model": "default",
            "mode": "default",
            "permissions": "approve-reads",
            "workspace_id": f"ws-{number % 10}",
            "workspace_path": f"/workspaces/repository-{number % 10}",
            "worktree": None,
            "state": "stopped",
            "stop_reason": "completed",
            "stop_detail": None,
            "failure": None,
            "acp_session_id": f"0198c1de-0000-7000-8000-{number:012d}",
            "acp_session_ids": [f"0198c1de-0000-7000-8000-{number:012d}"],
            "acp_caps": {"loadSession": True, "promptCapabilities": {"image": True, "embeddedContext": True}},
            "restore": None,
            "attach": None,
            "limits": None,
            "spent": {"cost": 0.25, "currency": "USD"},
            "activity": None,
            "last_sequence": 420,
            "turns": 12,
            "keeper": None,
            "archived": False,
            "created_at": at,
            "updated_at": at,
            **fields,
        },
        option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE,
    )


def many_sessions(path: Path, count: int, *, crashed: int = 0) -> None:
    """`count` sessions; with `crashed`, all have logs and that many of them lost their keeper in a turn."""
    home = use(path)
    logs = _templates(home) if crashed else None
    for number in range(count):
        session_id = f"sess-{number:012d}"
        directory = path / "sessions" / session_id
        make_private_dir(str(directory))
        fields: dict[str, Any] = {}
        if logs:
            broken = number < crashed
            shutil.copyfile(logs[broken], directory / "events.db")
            (directory / "lock").touch(0o600)
            fields = {"state": "active", "stop_reason": None} if broken else {}
            fields["last_sequence"] = count_events(logs[broken])
        (directory / "meta.json").write_bytes(metadata(session_id, number, **fields))


@cache
def count_events(log: Path) -> int:
    with closing(sqlite3.connect(log)) as connection:
        return int(connection.execute("SELECT count(*) FROM events").fetchone()[0])


def fail_sessions(path: Path, count: int) -> None:
    """Let `count` of the sessions have failed."""
    for number in range(count):
        session_id = f"sess-{number:012d}"
        text = metadata(session_id, number, stop_reason="agent_crashed", stop_detail="it was killed")
        (path / "sessions" / session_id / "meta.json").write_bytes(text)


def _templates(home: Home) -> tuple[Path, Path]:
    """Return a log that ended and one that was cut off, outside the sessions that are counted."""
    whole = [event for _ in range(5) for event in conversation()]
    cut = [*whole, user("go on", turn="turn-9"), says("yes", turn="turn-9"), calls("call-9", turn="turn-9")]
    made = []
    for name, drafts in (("whole", [*whole, finishes()]), ("cut", cut)):
        directory = home.session(drafts, id=f"sess-template{name}")
        kept = home.path / f"{name}.db"
        shutil.copyfile(directory / "events.db", kept)
        shutil.rmtree(directory)
        made.append(kept)
    return made[0], made[1]


def talkative_sessions(path: Path, count: int, events: int = 500) -> None:
    """`count` sessions of `events` events each, in the words of a vocabulary with common and rare words.

    Every message has `common` in it; `rareNN` is in the sessions of one template of twenty.
    """
    home, templates = use(path), []
    for number in range(min(20, count)):
        directory = home.session(_talk(number, events), id=f"sess-template{number:04d}")
        templates.append(home.path / f"talk-{number}.db")
        shutil.copyfile(directory / "events.db", templates[-1])
        shutil.rmtree(directory)
    for number in range(count):
        session_id = f"sess-{number:012d}"
        directory = path / "sessions" / session_id
        make_private_dir(str(directory))
        shutil.copyfile(templates[number % len(templates)], directory / "events.db")
        (directory / "meta.json").write_bytes(metadata(session_id, number))


def _talk(seed: int, events: int) -> list[Draft]:
    """Turns of 25 events: a prompt, a tool, and an answer in chunks."""
    chance, found = random.Random(seed), list[Draft]()
    words = [f"word{int(chance.paretovariate(0.5)) % 20_000}" for _ in range(5_000)]
    while len(found) < events:
        turn = f"turn-{len(found):06d}"
        sentences = [" ".join(["common", *chance.choices(words, k=9)]) + " " for _ in range(22)]
        found += [
            user(f"{sentences[0]} rare{seed:02d}", turn=turn),
            calls("c", turn=turn, title=sentences[1]),
        ]
        found += [returns("c", turn=turn, tool_result={"content": sentences[2] * 5})]
        found += [says(text, turn=turn) for text in sentences[1:]] + [finishes(turn)]
    return found[:events]


def long_log(path: Path, rows: int, **fields: Any) -> Path:
    """One session with `rows` events of the kinds and sizes that agents send, as a keeper leaves it."""
    directory = use(path).directory(id=ROWS_ID, **fields)
    owner = take(Session.at(directory))
    assert owner is not None
    with owner:
        create_log(owner)
        with Writer(owner, "claude") as log:
            events = _stream()
            for _ in range(rows // BATCH):
                log.append([next(events) for _ in range(BATCH)])
                for turn in range(BATCH // TURN - 1, -1, -1):  # a batch is a number of whole turns
                    milestones.mark(log, log.last_sequence - turn * TURN)
            log.append([next(events) for _ in range(rows % BATCH)])
    return directory


def _stream() -> Iterator[Draft]:
    """Turns of mostly chunks of text and some tools: about 300 bytes of content each."""
    number = 0
    while True:
        turn = f"turn-{number // TURN:06d}"
        second = number // 100
        clock = f"{second // 3600 % 24:02d}:{second // 60 % 60:02d}:{second % 60:02d}"
        at = f"2026-04-16T{clock}.{number % 100 * 10:03d}Z"
        kind = ("agent_message", "agent_message", "thought", "agent_message", "tool_call")[number % 5]
        kind = {0: "user_message", TURN - 1: "done"}.get(number % TURN, kind)
        text = f"chunk number {number} of an answer that goes on for a while, as answers do"
        content = (
            f'{{"schema":"{SCHEMA}","type":"{kind}","session_id":"0198c1de-7000","turn_id":"{turn}",'
            f'"timestamp":"{at}","text":"{text}","raw":{{"sessionUpdate":"{kind}_chunk",'
            f'"content":{{"type":"text","text":"{text}"}}}}}}'
        )
        yield Draft(kind, turn, content, at)
        number += 1
