"""What was probably meant. Pure; the import that costs happens only when something was mistyped."""

from __future__ import annotations

from collections.abc import Iterable


def closest(word: str, known: Iterable[str], alike: float = 0.6) -> str:
    """The known word most like the given one; empty when none is alike enough."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, list(known), n=1, cutoff=alike)), "")
