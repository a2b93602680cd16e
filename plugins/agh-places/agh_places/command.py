"""`agh relay`: the end of a mirror's connection on the machine that keeps the session. Not for users."""

from __future__ import annotations

import click


@click.command("relay", hidden=True, epilog="Example:  agh relay sess-0mwl6jjhq17snecq")
@click.argument("session_id")
def relay(session_id: str) -> None:
    """Connect a mirror on another machine to the session that is kept here."""
    from agh_places.far_end import serve_mirror

    serve_mirror(session_id)
