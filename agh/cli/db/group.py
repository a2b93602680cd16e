"""The commands of `agh db`"""

from __future__ import annotations

from agh.cli.lazy import LazyGroup

NAMES = ("build", "metadata", "query", "shell")

db = LazyGroup(
    "db",
    modules={name: f"agh.cli.db.{name}:{name}_command" for name in NAMES},
    help="Query all sessions as one SQLite database.",
    epilog="Example:  agh db query 'SELECT * FROM cost_by_day' --table",
)
