"""`agh session`: the commands on sessions, one module each."""

from __future__ import annotations

from agh.cli.lazy import LazyGroup

SECTIONS = {
    "Talk to a session": ("new", "prompt", "attach", "resume", "fork", "ensure"),
    "Look at sessions": (
        "list",
        "status",
        "events",
        "history",
        "transcript",
        "last",
        "recap",
        "search",
        "usage",
        "commands",
        "permissions",
        "questions",
        "wait",
    ),
    "Manage what runs": (
        "approve",
        "deny",
        "answer",
        "queue",
        "cancel",
        "due",
        "pause",
        "stop",
        "detach",
        "set",
        "rename",
        "checkpoint",
    ),
    "Keep and clean up": ("export", "import", "archive", "redact", "delete", "prune", "repair"),
}
ELSEWHERE = {
    "answer": "agh.cli.session.questions:answer_command",
    "approve": "agh.cli.session.permissions:approve_command",
    "deny": "agh.cli.session.permissions:deny_command",
    "import": "agh.cli.session.import_:import_command",  # no module can be called import
}
NAMES = sorted(name for names in SECTIONS.values() for name in names if name not in ELSEWHERE)

session = LazyGroup(
    "session",
    modules={name: f"agh.cli.session.{name}:{name}_command" for name in NAMES} | ELSEWHERE,
    short={"log": "agh.cli.session.events:events_command", "ls": "agh.cli.session.list:list_command"},
    sections=SECTIONS,
    help="Work with sessions. ID is an id, a unique prefix of one, a session's name, or @last.",
    epilog="Example:  agh session events @last --follow | jq -r .type",
)
