"""Texts of which parts are unknown, and whether a rule's pattern may match them. Pure."""

from __future__ import annotations

from fnmatch import fnmatchcase

ANY = "\0"  # in a text: something that is not known, of any length
_ONE, _MANY = 1, 2
_MOST_STEPS = 2_000_000


def matches(text: str, pattern: str) -> bool:
    """Tell whether a shell pattern matches a text that is known in full."""
    return ANY not in text and fnmatchcase(text, pattern)


def may_match(text: str, pattern: str) -> bool:
    """Tell whether a shell pattern matches some text that this one may stand for."""
    if ANY not in text:
        return fnmatchcase(text, pattern)
    tokens = _tokens(pattern)
    if len(text) * len(tokens) > _MOST_STEPS:
        return True
    return _overlap(text, tokens)


def _tokens(pattern: str) -> list[str | int]:
    """Return the pattern's characters; what is in brackets counts as any one character."""
    tokens: list[str | int] = []
    position = 0
    while position < len(pattern):
        character = pattern[position]
        end = pattern.find("]", position + 2) if character == "[" else -1
        if character == "*":
            tokens.append(_MANY)
        elif character == "?" or end > 0:
            tokens.append(_ONE)
        else:
            tokens.append(character)
        position = end + 1 if end > 0 else position + 1
    return tokens


def _overlap(text: str, tokens: list[str | int]) -> bool:
    """Follow all positions in `tokens` that a beginning of the text can reach."""
    positions = _close({0}, tokens)
    for character in text:
        if character == ANY:
            positions = set(range(min(positions), len(tokens) + 1)) if positions else positions
            continue
        reached = set()
        for position in positions:
            if position == len(tokens):
                continue
            token = tokens[position]
            if token == _MANY:
                reached.add(position)
            elif token in (_ONE, character):
                reached.add(position + 1)
        positions = _close(reached, tokens)
        if not positions:
            return False
    return len(tokens) in positions


def _close(positions: set[int], tokens: list[str | int]) -> set[int]:
    """Add the positions behind each `*`, which may stand for nothing."""
    closed = set(positions)
    for position in positions:
        while position < len(tokens) and tokens[position] == _MANY:
            position += 1
            closed.add(position)
    return closed
