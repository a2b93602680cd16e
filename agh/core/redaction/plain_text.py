r"""Text as its reader gets it: without colour codes and invisible characters, with escapes decoded. Pure.

A secret may be interrupted by these (`sk-ant-\u001b[0mapi03…`), so they must not be in the way of a search.
What is found in the plain text is traced back to the original.
"""

from __future__ import annotations

import re
from bisect import bisect_right

_ESCAPE = r"\\++(?:u001[bB]|x1[bB]|033|e)"
_INTERRUPTIONS = (
    rf"(?:\x1b|\x9b|{_ESCAPE})(?:\[[0-?]*+[ -/]*+[@-~]|\][^\x07\x1b\\]*+(?:\x07|\x1b\\)?|[@-Z^_]?)"
    "|[\u00ad\u200b-\u200f\u2060-\u2064\ufeff]"
    r"|\\++u(?P<unicode>00[2-7][0-9a-fA-F])|\\++x(?P<hex>[2-7][0-9a-fA-F])|\\++(?P<slash>/)"
)
_SIGNS = ("\x1b", "\x9b", "\\u00", "\\x", "\\033", "\\e", "\\/", *"\u00ad\u200b\u200c\u200d\u2060\ufeff")


class PlainText:
    """A text without its interruptions, and where each part of it was."""

    def __init__(self, original: str) -> None:
        pieces: list[str] = []
        self._starts: list[int] = []  # of each piece, in the plain text
        self._origins: list[tuple[int, int]] = []  # of each piece, in the original: its start and end
        self._length = 0
        position = 0
        for match in re.finditer(_INTERRUPTIONS, original):
            self._add(pieces, original[position : match.start()], position, match.start())
            code = match["unicode"] or match["hex"]
            self._add(pieces, chr(int(code, 16)) if code else match["slash"] or "", *match.span())
            position = match.end()
        self._add(pieces, original[position:], position, len(original))
        self.text = "".join(pieces)

    def _add(self, pieces: list[str], text: str, start: int, end: int) -> None:
        if text:
            pieces.append(text)
            self._starts.append(self._length)
            self._origins.append((start, end))
            self._length += len(text)

    def origin(self, span: tuple[int, int]) -> tuple[int, int]:
        """Return where a part of the plain text was in the original."""
        first, last = self._piece(span[0]), self._piece(span[1] - 1)
        start, end = self._origins[first][0], self._origins[last][1]
        if self._is_verbatim(first):
            start += span[0] - self._starts[first]
        if self._is_verbatim(last):
            end = self._origins[last][0] + span[1] - self._starts[last]
        return start, end

    def _piece(self, position: int) -> int:
        return bisect_right(self._starts, position) - 1

    def _is_verbatim(self, piece: int) -> bool:
        """Tell whether a piece is as long as its original: a decoded escape is not."""
        start, end = self._origins[piece]
        after = self._starts[piece + 1] if piece + 1 < len(self._starts) else self._length
        return after - self._starts[piece] == end - start


def plain_text(original: str) -> PlainText | None:
    """Return the text without what interrupts it, or None if nothing does."""
    if not any(sign in original for sign in _SIGNS):
        return None
    plain = PlainText(original)
    return plain if len(plain.text) != len(original) else None
