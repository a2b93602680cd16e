"""Suggestions for mistyped words. Pure; imports difflib only when something was mistyped."""

from __future__ import annotations

from collections.abc import Iterable


def closest(word: str, candidates: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the candidate most similar to the word; empty if none is similar enough."""
    from difflib import get_close_matches

    return next(iter(get_close_matches(word, list(candidates), n=1, cutoff=cutoff)), "")
