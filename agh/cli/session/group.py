"""`agh session`: the commands on sessions, one module each."""

from __future__ import annotations

from agh.cli.lazy import LazyGroup

NAMES = (
    "archive",
    "attach",
    "cancel",
    "checkpoint",
    "delete",
    "detach",
    "ensure",
    "events",
    "export",
    "fork",
    "history",
    "list",
    "new",
    "pause",
    "permissions",
    "prompt",
    "prune",
    "queue",
    "recap",
    "rename",
    "repair",
    "resume",
    "search",
    "set",
    "status",
    "stop",
    "transcript",
    "usage",
    "wait",
)
ELSEWHERE = {
    "approve": "agh.cli.session.permissions:approve_command",
    "deny": "agh.cli.session.permissions:deny_command",
    "import": "agh.cli.session.import_:import_command",  # no module can be called import
}

session = LazyGroup(
    "session",
    modules={name: f"agh.cli.session.{name}:{name}_command" for name in NAMES} | ELSEWHERE,
    help="Work with sessions. ID is an id, a unique prefix of one, a session's name, or @last.",
    epilog="Example:  agh session events @last --follow | jq -r .type",
)
