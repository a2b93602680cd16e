"""Session names in messages for people. Imported only for an error that names a session by its id.

Promises: a name stands for an id only where the same command line would find that session by it.
"""

from __future__ import annotations

import re

from agh.errors import AghError
from agh.home import session_of
from agh.store import meta, sessions

SESSION_ID = re.compile(r"\bsess-[0-9a-z]+\b")


def use_names(text: str) -> str:
    """Return the text with the names of sessions in place of their ids."""
    if "\n" in text.partition("\nhint: ")[0]:  # a list of sessions, which has their names too
        return text
    for session_id in dict.fromkeys(SESSION_ID.findall(text)):
        name = _name(session_id)
        if name and name not in text:
            text = text.replace(session_id, name)
    return text


def _name(session_id: str) -> str:
    """Return the session's name, if it has one that means this session here."""
    try:
        name = meta.read(session_of(session_id)).get("name")
        return name if name and sessions.resolve(name).id == session_id else ""
    except (AghError, OSError):
        return ""
