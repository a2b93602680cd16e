"""The members of a council. Each member is an agh session with its own agent, log and keeper."""
