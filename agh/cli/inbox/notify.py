"""`agh notify test`"""

from __future__ import annotations

import sys
from typing import Any

import click

from agh.cli.inbox.ring import ring
from agh.config import load
from agh.console.output import output_option, write_result
from agh.core.events import timestamp
from agh.core.settings.notify import EVENTS, Notify
from agh.errors import NotifyFailed, Usage
from agh.store.sessions import working_directory

TITLE, TEXT = "agh notify test", "If you see this, it works."


@click.group("notify", epilog="Example:  agh notify test")
def notify() -> None:
    """Send notifications when a session needs you.

    \b
    In your own config.toml, any of:
      [notify]
      bell = true                           # ring where an agh command runs
      osc = "9"                             # popup by OSC 9, 777 or 99
      desktop = true                        # notify-send, or D-Bus
      ntfy = "https://ntfy.sh/my-topic"
      webhook = "https://example.org/hook"  # gets JSON
      command = "jq -r .title | wall"       # gets JSON on its standard input
      apprise = ["tgram://TOKEN/CHAT"]      # with 'agh-cli[apprise]'
    """


@notify.command("test", epilog="Example:  agh notify test --event failed")
@click.option(
    "--event",
    type=click.Choice(EVENTS),
    default="needs_you",
    show_default=True,
    help="Send the notification for this event.",
)
@output_option()
def test_command(event: str, output: str) -> None:
    """Send a test notification with every notifier in config.toml.

    Waits for each and prints which ones failed (exit 1). The bell and OSC sequences go to this terminal.
    """
    settings = load(None)["notify"]
    if settings is None or not (settings.senders or settings.bell or settings.osc):
        raise Usage("no notifier is configured", hint="agh config set notify.bell true")
    rows = _send(settings, event)
    write_result("notifiers", rows, output, lambda: "\n".join(map(_format, rows)))
    failed = [row["notifier"] for row in rows if row["error"] is not None]
    if failed:
        raise NotifyFailed(", ".join(failed))


def _send(settings: Notify, event: str) -> list[dict[str, Any]]:
    from agh.keeper.notify.send import page_link, send_all

    message = {
        "event": event,
        "session_id": None,
        "name": None,
        "agent_name": None,
        "workspace_path": working_directory(),
        "request_id": None,
        "title": TITLE,
        "text": TEXT,
        "timestamp": timestamp(),
        "link": page_link(""),
    }
    results = send_all(settings, message)
    on_terminal = [name for name in ("bell", "osc") if getattr(settings, name)]
    if on_terminal:
        ring(settings._replace(events=EVENTS), event, TITLE, TEXT)
        error = None if sys.stderr.isatty() else "stderr is not a terminal"
        results |= dict.fromkeys(on_terminal, error)
    return [{"notifier": name, "error": error} for name, error in results.items()]


def _format(row: dict[str, Any]) -> str:
    return f"{row['notifier']}  {'sent' if row['error'] is None else 'failed: ' + row['error']}"
