"""`agh session status`"""

from __future__ import annotations

from datetime import UTC, datetime

import click

from agh.console import terminal
from agh.console.output import output_option, write_result
from agh.console.when import clock, local
from agh.home import Session
from agh.store import sessions
from agh.store.views import View, status_view

_FIELDS = (
    ("agent", "agent_name"),
    ("name", "name"),
    ("title", "title"),
    ("stop reason", "stop_reason"),
    ("detail", "stop_detail"),
    ("workspace", "workspace_path"),
    ("also in", "additional_directories"),
    ("its .agh", "workspace_trust"),
    ("place", "place"),
    ("turns", "turns"),
    ("attached to", "attached_to"),
    ("last message", "last_message"),
)


@click.command("status", epilog="Example:  agh session status @last -o json | jq .session.needs_resume")
@click.argument("id")
@output_option()
def status_command(id: str, output: str) -> None:
    """Show what a session is doing and whether to resume it."""
    view = status_view(sessions.resolve(id), _answers, terminal.default_holder())
    write_result("session", view, output, lambda: describe(view))


def _answers(session: Session) -> bool:
    from agh.keeper import client  # only a live session has someone to ask

    return client.answers(session)


def describe(view: View) -> str:
    lines = [("session", view["id"]), ("status", _status(view))]
    if question := (view.get("activity") or {}).get("question"):
        lines.append(("asks", str(question)))
    view = {**view, "additional_directories": ", ".join(view.get("additional_directories") or [])}
    lines += [(label, str(view[key])) for label, key in _FIELDS if view.get(key) not in (None, "")]
    if view["badge"] == "limited" and view.get("resumes_at"):
        lines.append(("limited until", clock(str(view["resumes_at"]))))
    now = datetime.now(UTC)
    lines += [(label, local(view.get(f"{label}_at"), now)) for label in ("created", "updated")]
    current = view.get("current") or {}
    lines += [(name, value) for name in ("model", "mode") if (value := current.get(name) or view.get(name))]
    if view.get("failure"):
        lines.append(("failure", f"{view['failure'].get('kind')}: {view['failure'].get('summary')}"))
    if view["badge"] == "not-responding":
        lines.append(("next", f"agh session stop {view['id']} --kill"))
    if view["needs_resume"]:
        lines.append(("next", f"agh session resume {view['id']}"))
    return "\n".join(f"{label + ':':<14}{terminal.one_line(value, 1000)}" for label, value in lines)


def _status(view: View) -> str:
    """Return the status as a list shows it, with the phase if that says more."""
    badge, phase = str(view["badge"]), str(view["phase"]).replace("_", "-")
    return badge if phase == badge else f"{badge} ({phase.replace('-', ' ')})"
