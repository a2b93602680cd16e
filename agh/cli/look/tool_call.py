"""A tool call that has ended: a line that says what it was, then its changes or the start of its output."""

from __future__ import annotations

from typing import Any

from rich.console import OverflowMethod
from rich.text import Text

from agh.cli.look.content import name_blocks
from agh.cli.look.diff import DIFF_LINES, INDENT, fold, paint_patch
from agh.console.terminal import clean, one_line
from agh.core.acp.frames import only_dicts
from agh.core.markdown import result_text

OUTPUT_LINES = 4
TITLE_LENGTH = 400


def paint_result(
    title: str, content: dict[str, Any], *, full: bool = False, workspace: str | None = None
) -> list[Text]:
    """Return the lines of a result; `full` hides nothing of its output and its changes."""
    has_failed, outcome = bool(content.get("tool_error")), content.get("outcome")
    mark = "?" if outcome == "unknown" else "✗" if has_failed else "✓"
    head = Text(no_wrap=not full, overflow="fold" if full else "ellipsis")
    head.append(f"{mark} ", "warning" if mark == "?" else "error" if has_failed else "success")
    head.append(one_line(title, TITLE_LENGTH), "error" if has_failed else "")
    if outcome == "unknown":
        head.append("  outcome unknown", "muted")
    result = content.get("tool_result")
    patches = only_dicts(result.get("structured_patch")) if isinstance(result, dict) else []
    lines = [head]
    for patch in patches:
        lines += paint_patch(patch, None if full else DIFF_LINES, workspace)
    if has_failed or not patches:
        lines += _paint_output(result_text(result), full, has_failed)
    raw = content.get("raw")
    blocks = only_dicts(raw.get("content")) if isinstance(raw, dict) else []
    names = name_blocks([block.get("content") for block in blocks])
    return lines + [Text(f"{INDENT}{name}", "muted") for name in names]


def _paint_output(output: str, full: bool, has_failed: bool) -> list[Text]:
    """Return the first lines of an output, or the last if it has failed, and how many are hidden."""
    lines = clean(output).strip("\n").splitlines()
    fence = (
        (line.lstrip().startswith("```") for line in (lines[0], lines[-1])) if len(lines) > 1 else (False,)
    )
    if all(fence):  # some agents wrap an output in Markdown
        lines = lines[1:-1]
    if full:
        return [_paint_line(line, full) for line in lines]
    filled = [_paint_line(line, full) for line in lines if line.strip()]
    return fold(filled, OUTPUT_LINES, end=has_failed)


def _paint_line(line: str, full: bool) -> Text:
    overflow: OverflowMethod = "fold" if full else "ellipsis"
    return Text(f"{INDENT}{line.expandtabs(4)}", "muted", no_wrap=not full, overflow=overflow)
