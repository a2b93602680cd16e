"""`agh agent`."""
