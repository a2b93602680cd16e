"""The catalog of agents: the public registry of ACP agents, and installing from it."""
