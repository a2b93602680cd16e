"""`agh db metadata`, as the installed program."""

from __future__ import annotations

import json
from pathlib import Path

from agh.sessions.database.schema import TABLES, VIEWS
from tests.support.build import Home
from tests.support.database import rich, select
from tests.support.program import Agh


def test_it_describes_every_table_and_names_only_what_there_is(home: Home, agh: Agh, tmp_path: Path) -> None:
    rich(home)
    file = tmp_path / "work.sessions.db"
    agh("db", "build", file)
    database = json.loads(agh("db", "metadata", file).stdout)["databases"]["work.sessions"]
    tables = database["tables"]
    assert tables.keys() == {*TABLES, *VIEWS, "agh_sources", "agh_build"}
    for name, fields in tables.items():
        columns = {column for (column,) in select(file, "SELECT name FROM pragma_table_info(?)", name)}
        named = {*fields.get("facets", ()), *fields.get("columns", ())}
        named |= {fields[key] for key in ("label_column", "sort_desc") if key in fields}
        assert named <= columns, name
        assert fields.get("description") or fields.get("hidden")
    sql = database["queries"]["search"]["sql"]
    rows = select(file, sql.replace(":words", "?1"), "zebra OR patched")
    assert sorted(row[0] for row in rows) == ["message", "tool result"]
