"""A text that the user writes in $VISUAL or $EDITOR."""

from __future__ import annotations

import click

from agh.errors import Usage


def edit(text: str) -> str | None:
    """Return the text as the user has changed it; None if it was not saved. Raise Usage if that fails."""
    try:
        return click.edit(text, extension=".md")
    except click.ClickException as error:
        raise Usage(error.format_message(), hint="set $VISUAL or $EDITOR") from None
    except UnicodeDecodeError:
        raise Usage("the editor did not write UTF-8", hint="save the text as UTF-8") from None
