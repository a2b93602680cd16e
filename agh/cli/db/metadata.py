"""`agh db metadata`"""

from __future__ import annotations

import os

import click

from agh.console.output import write_json
from agh.sessions.database.metadata import metadata


@click.command(
    "metadata", epilog="Example:  agh db metadata agh.db > agh.json; datasette agh.db --metadata agh.json"
)
@click.argument("file", type=click.Path(dir_okay=False))
def metadata_command(file: str) -> None:
    """Print Datasette metadata for FILE: titles, facets, search."""
    write_json(metadata(os.path.splitext(os.path.basename(file))[0]))
