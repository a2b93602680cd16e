from __future__ import annotations

import pytest

from agh.cli.look.paint import Canvas
from agh.cli.look.painter import Painter
from agh.cli.look.prose import newest_lines
from agh.console.terminal import display_width
from agh.core.events import Draft, draft
from tests.support.build import calls, returns, rows, says, thinks
from tests.support.live import Live
from tests.support.screens import SIZES, print_on_screen, too_wide

ANSWER = """The total was computed **without tax**, see `cart.py`:

```python
def total(items, rate=0):

    return round(sum(item.price for item in items) * (1 + rate), 2)
```

## What changed

1. `total` takes a rate

2. the tests cover rounding

   - half a cent, and a line that is so long that a terminal of eighty columns has to wrap it somewhere

| country | rate |
|---|--:|
| DE | 0.19 |

> Prices stay net.

See [the guide](https://example.org/tax)."""


def painted(drafts: list[Draft], width: int = 80, *, full: bool = False, flush: bool = False) -> str:
    canvas, parts = Canvas(width), list[str]()
    painter = Painter("sess-1", lambda part: parts.append(canvas.paint(part)), full=full)
    for row in rows(drafts):
        painter.show(row)
        if flush:
            painter.write_finished()
    painter.settle()
    return "".join(parts)


@pytest.fixture(autouse=True)
def no_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.mark.parametrize("size", [1, 2, 7, 40, 1000])
def test_a_message_looks_the_same_however_it_comes(size: int) -> None:
    chunks = [says(ANSWER[start : start + size]) for start in range(0, len(ANSWER), size)]
    expected = painted([says(ANSWER)])
    assert painted(chunks) == painted(chunks, flush=True) == expected
    lines = expected.split("\n")
    for line in (
        "What changed",
        " 1 total takes a rate",
        "  def total(items, rate=0):",
        "▌ Prices stay net.",
    ):
        assert line in lines
    assert [line for line in lines if line != line.rstrip()] == []
    assert "\n\n\n" not in expected


def test_code_has_no_background(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLORFGBG", "0;15")
    text = painted([says(ANSWER)])
    assert "\x1b[38;5;90mdef" in text
    assert "48;" not in text
    assert "\x1b[4" not in text


def test_what_tools_return_is_folded_with_a_count() -> None:
    output = "\n".join(f"line {number}" for number in range(30))
    drafts = [calls("c1", title="Read it"), returns("c1", tool_result={"content": output})]
    text = painted(drafts)
    assert text.split("\n")[:6] == ["✓ Read it", *(f"  line {n}" for n in range(4)), "  … 26 more lines"]
    assert "line 29" in painted(drafts, full=True)
    failed = painted([returns("c1", title="pytest", tool_error=True, tool_result={"error": output})])
    assert failed.split("\n")[:3] == ["✗ pytest", "  … 26 lines above", "  line 26"]


def test_a_change_is_bounded_and_has_its_counts() -> None:
    patch = {"path": "shop/cart.py", "oldText": "a\nb\n", "newText": "a\n" + "new\n" * 90}
    drafts = [returns("c1", title="Edit cart.py", tool_result={"structured_patch": [patch]})]
    lines = painted(drafts).split("\n")
    assert lines[:5] == ["✓ Edit cart.py", "  shop/cart.py  +90 -1", "  @@ -1,2 +1,91 @@", "   a", "  -b"]
    assert lines[-2] == "  … 53 more lines"
    assert len(painted(drafts, full=True).split("\n")) > 90


def test_a_plan_has_a_mark_for_each_step() -> None:
    entries = [{"content": word, "status": word} for word in ("completed", "in_progress", "pending")]
    text = painted([draft("plan", turn_id="turn-1", raw={"sessionUpdate": "plan", "entries": entries})])
    assert text == "✓ completed\n▸ in_progress\n○ pending\n"


def test_a_request_is_in_our_own_words_and_whole() -> None:
    command = "make " + "target " * 100
    request = draft("permission", turn_id="turn-1", request_id="perm-1", action="execute", command=command)
    lines = painted([request]).split("\n")
    assert lines[0].startswith("? the agent wants to run: make target")
    assert " ".join("".join(lines).split()).count("target") == 100
    assert lines[-2] == "  agh session approve sess-1 perm-1 (or deny)"


def test_several_agents_are_told_apart() -> None:
    drafts = [says("A", agent_id="critic"), says("B", agent_id="critic"), says("C", agent_id="author")]
    assert painted([*drafts, says("D")]) == "critic:\nAB\n\nauthor:\nCD\n"


def test_a_long_block_in_progress_is_seen_at_its_end() -> None:
    code = "```python\n" + "".join(f"line_{number}\n" for number in range(100))
    assert newest_lines(code, 3) == "```python\nline_97\nline_98\nline_99\n"
    assert newest_lines("a\nb\nc", 2) == "b\nc"
    assert newest_lines(code, 200) == code


def test_images_are_named() -> None:
    image = {"type": "image", "mimeType": "image/png", "data": "A" * 4000}
    raw = {"sessionUpdate": "agent_message_chunk", "content": image}
    text = painted([says("Look:"), says("", title="image content", raw=raw), says("Nice?")])
    assert text == "Look:\n\n  [image: image/png, 3 kB]\n\nNice?\n"
    content = [{"type": "content", "content": {**image, "uri": "file:///tmp/a.png"}}]
    text = painted([returns("c1", title="Draw", tool_result={}, raw={"content": content})])
    assert text == "✓ Draw\n  [image: /tmp/a.png, 3 kB]\n"


def test_agents_cannot_drive_the_terminal() -> None:
    evil = "\x1b]0;owned\x07\x1b[2J"
    patch = {"path": evil, "oldText": "", "newText": evil}
    text = painted(
        [
            says(f"a {evil}\n\n```\n{evil}\n```\n"),
            thinks(evil),
            returns("c1", title=evil, tool_result={"content": evil}),
            returns("c2", tool_result={"structured_patch": [patch]}),
            draft("plan", turn_id="turn-1", raw={"entries": [{"content": evil}]}),
        ]
    )
    assert "\x1b" not in text
    assert "\x07" not in text


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    long = "word " * 50 + "x" * 300 + " 世界" * 40
    patch = {"path": "p" * 300, "oldText": "", "newText": long}
    text = painted(
        [
            says(ANSWER + "\n\n" + long),
            thinks(long),
            returns("c1", title=long, tool_result={"content": long, "structured_patch": [patch]}),
            returns("c2", title=long, tool_result={"content": long}),
            draft("plan", turn_id="turn-1", raw={"entries": [{"content": long}]}),
            draft("runtime_warning", summary=long),
        ],
        width,
    )
    assert [line for line in text.split("\n") if display_width(line) > width] == []


@pytest.mark.parametrize(("columns", "rows"), SIZES)
def test_a_turn_looks_the_same_live_and_later(live: Live, columns: int, rows: int) -> None:
    prompt = "/think Where is it?\n/plan find it | mend it\n/tool kind=read Read cart.py\n" + "\n".join(
        line if line.strip() else " " for line in ANSWER.split("\n")
    )
    session = live.new()
    tall = {"columns": columns, "rows": 200}
    now = print_on_screen("session", "prompt", session.id, prompt, **tall)  # type: ignore[arg-type]
    later = print_on_screen("session", "transcript", session.id, "--no-pager", **tall)  # type: ignore[arg-type]
    assert too_wide(later) == []
    past = later.text.split("\n")
    start = past.index("Where is it?")
    assert past[0].startswith("> /think Where is it?")
    assert now.text.split("\n") == past[start:]
    assert "What changed" in past
