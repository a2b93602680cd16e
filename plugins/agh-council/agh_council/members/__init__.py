"""The members of a council: each is an agh session with an agent, a log and a keeper."""
