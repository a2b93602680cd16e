"""`agh session status`"""

from __future__ import annotations

import click

from agh.console import terminal
from agh.console.output import output_option, write_result
from agh.keeper import client
from agh.store import sessions
from agh.store.views import View, status_view

_FIELDS = (
    ("agent", "agent_name"),
    ("name", "name"),
    ("title", "title"),
    ("state", "state"),
    ("phase", "phase"),
    ("badge", "badge"),
    ("stop reason", "stop_reason"),
    ("detail", "stop_detail"),
    ("workspace", "workspace_path"),
    ("also in", "additional_directories"),
    ("its .agh", "workspace_trust"),
    ("place", "place"),
    ("turns", "turns"),
    ("attached to", "attached_to"),
    ("created", "created_at"),
    ("updated", "updated_at"),
)


@click.command("status", epilog="Example:  agh session status @last -o json | jq .session.needs_resume")
@click.argument("id")
@output_option()
def status_command(id: str, output: str) -> None:
    """Show what a session is doing, and if it needs a resume."""
    view = status_view(sessions.resolve(id), client.answers, terminal.default_holder())
    write_result("session", view, output, lambda: describe(view))


def describe(view: View) -> str:
    lines = [("session", view["id"])]
    view = {**view, "additional_directories": ", ".join(view.get("additional_directories") or [])}
    lines += [(label, str(view[key])) for label, key in _FIELDS if view.get(key) not in (None, "")]
    current = view.get("current") or {}
    lines += [(name, value) for name in ("model", "mode") if (value := current.get(name) or view.get(name))]
    if view.get("failure"):
        lines.append(("failure", f"{view['failure'].get('kind')}: {view['failure'].get('summary')}"))
    if view["badge"] == "not-responding":
        lines.append(("next", f"agh session stop {view['id']} --kill"))
    if view["needs_resume"]:
        lines.append(("next", f"agh session resume {view['id']}"))
    return "\n".join(f"{label + ':':<13}{terminal.one_line(value, 1000)}" for label, value in lines)
