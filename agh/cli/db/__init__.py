"""`agh db`: all sessions as one SQLite database. One module per command."""
