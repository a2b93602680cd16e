"""`agh session`: the commands on sessions, one module each."""

from __future__ import annotations

from agh.cli.lazy import LazyGroup

NAMES = ("events", "history", "list", "recap", "repair", "status", "transcript")

session = LazyGroup(
    "session",
    places={name: f"agh.cli.session.{name}:{name}_command" for name in NAMES},
    help="Work with sessions. ID is an id, a unique prefix of one, a session's name, or @last.",
    epilog="Example:  agh session events @last --follow | jq -r .type",
)
