"""A copy without its secrets: none missing, none left, also when they came in pieces."""

from __future__ import annotations

from agh.core.exchange import Snapshot
from agh.core.redaction.redact import MARK, redactor
from agh.core.redaction.redacted import redact_copy, redacted_rows
from agh.core.transcript import transcript
from tests.support.build import calls, conversation, draft, returns, rows, says, thinks, user

TOKEN = "ghp_" + "a1B2" * 9
HIDE = redactor({"MY_API_KEY": "swordfish-9000-xyz"})


def test_a_secret_in_pieces_is_hidden() -> None:
    pieces = [TOKEN[:7], TOKEN[7:20], TOKEN[20:] + " is it"]
    drafts = [user("tell me"), says("look: ", raw={"text": TOKEN[:7]})]
    for piece in pieces:
        drafts += [says(piece, raw={"content": {"text": piece}}), draft("usage", turn_id="turn-1", usage={})]
        drafts += [thinks(piece)]
    before = rows(drafts)
    after = list(redacted_rows(before, HIDE))
    assert [row[:4] + row[5:] for row in after] == [row[:4] + row[5:] for row in before]
    everything = "".join(row.content for row in after)
    assert not any(piece.strip() in everything for piece in (TOKEN[4:], TOKEN[7:20], TOKEN[20:]))
    assert transcript(after)[1]["content"] == f"look: {MARK} is it"
    assert transcript(after)[1]["thinking"] == f"{MARK} is it"


def test_what_holds_no_secret_says_the_same() -> None:
    before = rows(conversation())
    assert transcript(redacted_rows(before, HIDE)) == transcript(before)


def test_every_place_is_looked_at() -> None:
    secret = "swordfish-9000-xyz"
    drafts = [
        user(f"use {secret}"),
        calls(
            "c", tool_input={"command": f"curl -H {secret}", "password": "hunter2hunter2"}, raw={"x": secret}
        ),
        returns("c", tool_result={"content": f"ok {TOKEN}"}),
        draft("plan", turn_id="turn-1", raw={"entries": [{"content": secret}]}),
        draft("error", turn_id="turn-1", error=f"refused {secret}"),
    ]
    tables = {
        "inputs": [{"id": 1, "prompt": f'[{{"type":"text","text":"use {secret}"}}]', "status": "sent"}],
        "permissions": [{"request_id": "r", "request": f'{{"api_key":"{TOKEN}"}}', "title": secret}],
        "hook_runs": [{"id": 1, "output": f"TOKEN={TOKEN}"}],
    }
    session = {
        "id": "sess-00000000",
        "command": ["x", secret],
        "mcp_servers": [{"env": [{"name": "API_KEY", "value": "zzz"}]}],
    }
    clean = redact_copy(Snapshot(session, 5, tables, lambda: iter(rows(drafts)), lambda path: None), HIDE)
    everything = f"{clean.session} {clean.tables} {list(clean.rows())}"
    assert not [one for one in (secret, TOKEN, "hunter2", "zzz") if one in everything]
    assert clean.tables["inputs"][0]["status"] == "sent" and MARK in clean.tables["inputs"][0]["prompt"]
    assert [row.sequence for row in clean.rows()] == [1, 2, 3, 4, 5]


def test_a_turn_that_is_too_long_to_be_held_back_is_redacted_all_the_same() -> None:
    pieces = [TOKEN[at : at + 2] for at in range(0, len(TOKEN), 2)]
    drafts = [user("tell me")]
    for number in range(150):
        drafts += [says("look: "), *(calls(f"c{number}") for _ in range(number % 7))]
        drafts += [says(piece) for piece in pieces] + [says(" is it\n")]
    before = rows(drafts)
    after = list(redacted_rows(before, HIDE))
    assert len(before) > 3000
    assert [row[:4] + row[5:] for row in after] == [row[:4] + row[5:] for row in before]
    said = "".join(str(row.parsed().get("text")) for row in after if row.type == "agent_message")
    assert said == f"look: {MARK} is it\n" * 150


def test_turns_are_not_read_as_one_text() -> None:
    drafts = [says("the password: ", turn="turn-1"), says("abc123def456", turn="turn-2")]
    assert [row.parsed()["text"] for row in redacted_rows(rows(drafts), HIDE)][1] == "abc123def456"
