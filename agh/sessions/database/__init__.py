"""One SQLite database with the sessions of a home, to query and to browse: `agh db`.

`schema` has the tables and views, `collect` turns events into rows, `build` writes the file, `query` reads
it, `metadata` describes it to Datasette. Only `build` imports sqlite-utils.
"""
