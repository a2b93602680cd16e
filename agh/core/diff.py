"""Unified diffs for the user to judge. Pure.

Promises: a change is never invisible. Only a line feed ends a line, as for most programs; a change
that no line shows, as of line ends, is put into words.
"""

from __future__ import annotations


def split_lines(text: str) -> list[str]:
    """Split a text at its line feeds; the last one ends the last line."""
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


def unified(old: str, new: str, path: str) -> list[str]:
    """Return the change of a text as the lines of a unified diff; none if there is no change."""
    from difflib import unified_diff

    before, after = old, new
    if _has_crlf(old) and _has_crlf(new):  # in a file of that kind they say nothing
        before, after = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    name = path.replace("\n", "\\n")
    lines = list(unified_diff(split_lines(before), split_lines(after), name, name, lineterm="", n=2))
    if not lines and old != new:
        lines.append(f"{name}: only the newline at the end of the file changes")
    return lines


def _has_crlf(text: str) -> bool:
    """Tell whether every line feed follows a carriage return; so for a text without any."""
    return text.count("\r\n") == text.count("\n")
