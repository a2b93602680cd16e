"""The lines of `agh top`, for every size of a screen."""

from __future__ import annotations

from typing import Any

import pytest

from agh.cli.top.draw import draw, draw_hint, shorten
from agh.cli.top.reader import Snapshot
from agh.cli.top.state import Answer, Mode, State
from agh.console.terminal import display_width

HOSTILE = "\x1b[2Jred \u202e日本\tはい" * 20
DIFF = ["--- a", "+++ a", "@@ -1 +1 @@", "-old", f"+{HOSTILE}", "the agent calls it: Edit"]


def view(number: int, **fields: Any) -> dict[str, Any]:
    return {"id": f"sess-{number:012}", "state": "active", "badge": "idle", "updated_at": None, **fields}


def entry(session: dict[str, Any], **fields: Any) -> Any:
    return {
        "number": 1,
        "key": f"{session['id']}/perm-1",
        "kind": "permission",
        "session_id": session["id"],
        "name": session.get("name"),
        "workspace_path": "/work",
        "since": "",
        "about": f"edit: /work/a.txt {HOSTILE}",
        "details": DIFF,
        "request": {"offered": ["allow", "deny", "deny_always"]},
        "next": ["agh inbox approve 1"],
        **fields,
    }


def filled() -> State:
    views = [
        view(1, name=HOSTILE, last_message=HOSTILE, badge="waiting-for-input", agent_name="echo"),
        *(view(n, name=f"session-{n}", last_message="fine", workspace_path="/work") for n in range(2, 60)),
    ]
    state = State()
    state.update(Snapshot(views, {views[0]["id"]: [entry(views[0]), entry(views[0], key="other")]}, []))
    return state


@pytest.mark.parametrize("width", [1, 7, 20, 40, 41, 80, 200])
@pytest.mark.parametrize("height", [1, 3, 11, 12, 24, 50])
def test_every_line_fits(width: int, height: int) -> None:
    state = filled()
    state.answer = Answer(state.entries[0], allows=True)
    for mode in Mode:
        for row in (0, 30, 59):
            state.mode = mode
            state.select(row)
            lines = draw(state, width, height)
            assert len(lines) == height
            for line in [*lines, draw_hint(state, width)]:
                text = "".join(text for _, text in line)
                assert text.isprintable(), "a control character or a tab"
                if width >= 40:
                    assert display_width(text) <= width


def test_the_preview_is_short_and_the_request_is_whole() -> None:
    state = filled()
    preview = "\n".join("".join(text for _, text in line) for line in draw(state, 80, 50))
    assert "permission: edit: a.txt" in preview
    assert "--- a" not in preview
    state.answer, state.mode = Answer(state.entries[0], allows=False), Mode.ANSWER
    request = "\n".join("".join(text for _, text in line) for line in draw(state, 80, 50))
    assert "edit: /work/a.txt" in request
    assert "--- a" in request and "the agent calls it: Edit" in request


def test_only_answers_that_the_agent_offers_have_a_key() -> None:
    state = filled()
    assert Answer(state.entries[0], allows=True).choices == {"y": ("allow", "yes")}
    denial = Answer(state.entries[0], allows=False)
    assert denial.choices == {"y": ("deny", "yes"), "d": ("deny_always", "always")}
    state.answer, state.mode = denial, Mode.ANSWER
    assert draw_hint(state, 80) == [("class:warning", "deny this?  y yes  d always  n back  arrows scroll")]


def test_only_paths_in_the_workspace_are_shortened() -> None:
    asked = entry(view(1), workspace_path="/w/a+b")
    assert shorten(asked, "edit: /w/a+b/src/x.py") == "edit: src/x.py"
    for text in ("run: rm -rf /w/a+b/", "run: rm -rf /w/a+b/*", "edit: /mnt/w/a+b/x"):
        assert shorten(asked, text) == text
