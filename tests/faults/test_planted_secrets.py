"""Secrets of every kind in every place of a session: none leaves by recap, bundle, export or error."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agh.core.acp.updates import event_of
from agh.core.events import Draft, draft, draft_of, marker, timestamp
from agh.core.redaction.redact import redactor
from agh.home import Session
from agh.keeper.crash import _last_events
from tests.support.build import Home, calls, finishes, says, thinks, user
from tests.support.program import Agh
from tests.support.secrets import KINDS, make

SECRETS = 300


def middle(text: str, secret: str) -> int:
    return text.index(secret) + len(secret) // 2


def insert(text: str, secret: str, what: str) -> str:
    at = middle(text, secret)
    return text[:at] + what + text[at:]


# How a secret is written: 10 ways.
WAYS: dict[str, Callable[[str, str], str]] = {
    "plain": lambda text, secret: f"use {text} here",
    "quoted": lambda text, secret: f"{{'key': 'x', 'it': '{text}'}}" if "'" not in text else text,
    "json in text": lambda text, secret: json.dumps({"it": text}),
    "own line": lambda text, secret: f"first\n{text}\nlast",
    "brackets": lambda text, secret: f"({text})",
    "colour": lambda text, secret: insert(text, secret, "\x1b[31m"),
    "escaped colour": lambda text, secret: insert(text, secret, "\\u001b[0;32m"),
    "escaped letter": lambda text, secret: text.replace(secret, escape_letter(secret)),
    "invisible": lambda text, secret: insert(text, secret, "\u200b"),
    "twice": lambda text, secret: f"{text} and {text}",
}


def escape_letter(secret: str) -> str:
    at = len(secret) // 2
    return f"{secret[:at]}\\u{ord(secret[at]):04x}{secret[at + 1 :]}"


def halves(text: str) -> tuple[str, str]:
    return text[: len(text) // 2], text[len(text) // 2 :]


def update(turn: str, name: str, /, **fields: object) -> Draft:
    """An event as a keeper records it, with what the agent sent."""
    sent = {"sessionUpdate": name, **fields}
    type, extracted = event_of(sent)
    return draft_of(type, turn, "agent", timestamp(), extracted, json.dumps(sent).encode())


def block(text: str) -> dict[str, object]:
    return {"type": "content", "content": {"type": "text", "text": text}}


def in_message(turn: str, text: str) -> Iterator[Draft]:
    """Two chunks of an answer, with other events between them."""
    first, second = halves(text)
    yield update(turn, "agent_message_chunk", content={"type": "text", "text": first})
    yield calls("other", turn=turn)
    yield thinks("hm", turn=turn)
    yield update(turn, "agent_message_chunk", content={"type": "text", "text": second})
    yield thinks(text, turn=turn)


def in_blocks(turn: str, text: str) -> Iterator[Draft]:
    """Two content blocks of a tool's result."""
    yield update(
        turn, "tool_call_update", toolCallId=turn, status="completed", content=[*map(block, halves(text))]
    )


def in_updates(turn: str, text: str) -> Iterator[Draft]:
    """Two updates of a tool call."""
    first, second = halves(text)
    yield update(turn, "tool_call", toolCallId=turn, title="run", kind="execute", content=[block(first)])
    yield says("meanwhile", turn=turn)
    yield update(turn, "tool_call_update", toolCallId=turn, status="failed", content=[block(second)])


def in_keys(turn: str, text: str) -> Iterator[Draft]:
    """The keys and values of what a tool got and gave."""
    yield update(turn, "tool_call", toolCallId=turn, title=text, rawInput={"deep": [{text: 1}, text]})
    output = {text: {"stdout": text}, "list": [[text]]}
    yield update(turn, "tool_call_update", toolCallId=turn, status="completed", rawOutput=output)


def in_prompt(turn: str, text: str) -> Iterator[Draft]:
    """A prompt in two blocks, and a plan."""
    first, second = halves(text)
    prompt = [{"type": "text", "text": first}, {"type": "text", "text": second}]
    yield draft("user_message", turn_id=turn, text=text, prompt=prompt)
    yield update(turn, "plan", entries=[{"content": text, "priority": "high", "status": "pending"}])


def in_failure(turn: str, text: str) -> Iterator[Draft]:
    """A permission, a question, a summary in chunks, an unknown update, a marker, and how the turn failed."""
    yield draft(
        "permission", turn_id=turn, action="execute", resource=text, title=text, raw={"command": text}
    )
    fields = [{"name": "it", "title": text, "choices": [{"value": text, "title": text}]}]
    yield draft("question", turn_id=turn, message=text, fields=fields, raw={"message": text})
    yield draft("question", turn_id=turn, decision="accepted", answer={"it": text})
    for half in halves(text):
        yield update(
            turn, "compaction_summary_chunk", compactionId="1", content={"type": "text", "text": half}
        )
    yield update(turn, "brand_new", anything={"nested": [text]})
    yield marker("provider_failure", "it failed", diagnostic=text)
    yield draft("error", turn_id=turn, stop_reason="error", error=text)


EVENTS = (in_message, in_blocks, in_updates, in_keys, in_prompt, in_failure)
PLACES = [(way, events) for way in WAYS for events in EVENTS]


def plant() -> tuple[list[Draft], list[tuple[str, str, str]]]:
    """Events with all the secrets, and of each its kind, its place and itself."""
    chance, drafts, planted = random.Random(7), [user("hello")], []
    kinds = list(KINDS)
    for number in range(SECRETS):
        kind = kinds[number % len(kinds)]
        # Another place each time that a kind comes round.
        way, events = PLACES[(number * 7 + number // len(PLACES)) % len(PLACES)]
        text, secret = make(kind, chance)
        turn = f"turn-{number}"
        drafts += events(turn, WAYS[way](text, secret))
        if drafts[-1].type != "error":
            drafts.append(finishes(turn))
        planted.append((kind, f"{way}, {events.__doc__}", secret))
    return drafts, planted


DRAFTS, PLANTED = plant()


def leaks(output: str) -> list[tuple[str, str, str]]:
    """Which secrets show a piece that is long enough to matter."""
    plain = output.replace("\\u200b", "").replace("\u200b", "")
    return [
        (kind, place, secret)
        for kind, place, secret in PLANTED
        if any(piece in plain for piece in (secret[-14:-2], secret[len(secret) // 2 + 1 :][:12]))
    ]


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Home, Path]]:
    from tests.support.build import shared_home

    with shared_home(tmp_path_factory) as home:
        yield home, home.session(DRAFTS)


def test_there_are_enough_of_them() -> None:
    assert len(PLANTED) == SECRETS
    assert len({kind for kind, _, _ in PLANTED}) >= 90
    assert len({place for _, place, _ in PLANTED}) == len(PLACES) == 60
    assert len(leaks("\n".join(draft.content for draft in DRAFTS))) > 150, "unredacted, they show"


@pytest.mark.parametrize("format", ["jsonl", "html", "markdown", "db"])
def test_no_secret_leaves_by_an_export(
    agh: Agh, planted: tuple[Home, Path], tmp_path: Path, format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, session = planted
    monkeypatch.setenv("AGH_HOME", str(home.path))
    target = tmp_path / "export"
    agh("session", "export", session.name, "--redact", "-o", format, "--output", target)
    text = target.read_bytes().decode(errors="replace")
    assert "[redacted]" in text
    assert leaks(text) == []


@pytest.mark.parametrize("output", ["json", "human"])
def test_no_secret_leaves_by_a_recap(
    agh: Agh, planted: tuple[Home, Path], output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home, session = planted
    monkeypatch.setenv("AGH_HOME", str(home.path))
    text = agh("session", "recap", session.name, "--limit", "100", "-o", output).stdout
    assert "[redacted]" in text
    assert leaks(text) == []


def test_no_secret_leaves_by_a_crash_bundle(home: Home) -> None:
    for number in range(0, len(DRAFTS), 45):
        session = home.session(DRAFTS[: number + 20])
        assert leaks(json.dumps(_last_events(Session.at(session), redactor()))) == []


def test_no_secret_leaves_by_an_error(agh: Agh) -> None:
    """Whatever a user mistypes, in both forms of the message."""
    chance = random.Random(8)
    for number, kind in enumerate(KINDS):
        text, secret = make(kind, chance)
        if number % 10:
            continue
        for output in ((), ("-o", "json")):
            done = agh("session", "status", text, *output, code=4)
            assert secret[-14:-2] not in done.stderr, (kind, done.stderr)


def test_every_kind_in_every_way() -> None:
    """More than 1,200 texts."""
    chance, hide, shown = random.Random(9), redactor(), []
    for kind in KINDS:
        for way, write in WAYS.items():
            text, secret = make(kind, chance)
            clean = hide.text(write(text, secret)).replace("\u200b", "")
            if secret[-14:-2] in clean or secret[len(secret) // 2 + 1 :][:12] in clean:
                shown.append((kind, way, clean))
    assert shown == []


PLUGIN = """
import agh

@agh.hookimpl
def agh_register_redactions(register):
    register(("badge", r"BADGE-\\d{6}"))
    register("nonsense")
"""


def test_patterns_of_the_user_and_of_a_plugin(agh: Agh, home: Home, tmp_path: Path) -> None:
    session = home.session([user("mine is ACME-123456, yours BADGE-654321"), says("noted: ACME-777777")])
    (home.path / "config.toml").write_text("[redaction]\npatterns = ['ACME-(?P<secret>[0-9]{6})']")
    site = tmp_path / "site"
    (site / "acme-1.dist-info").mkdir(parents=True)
    (site / "acme_plugin.py").write_text(PLUGIN)
    (site / "acme-1.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1\n")
    (site / "acme-1.dist-info" / "entry_points.txt").write_text("[agh]\nacme = acme_plugin\n")
    env = {**os.environ, "PYTHONPATH": str(site)}
    for command in (("recap",), ("export", "--redact", "-o", "jsonl")):
        text = agh("session", command[0], session.name, *command[1:], env=env).stdout
        assert "ACME-[redacted]" in text, text
        assert "123456" not in text
        assert "BADGE-654321" not in text
    error = agh("session", "status", "ACME-123456", code=4).stderr
    assert "123456" not in error


def test_a_wrong_pattern_is_refused_by_name(agh: Agh, home: Home) -> None:
    home.path.mkdir(mode=0o700, exist_ok=True)
    (home.path / "config.toml").write_text("[redaction]\npatterns = ['(']")
    assert "redaction.patterns: not a regular expression" in agh("config", "show", code=2).stderr
