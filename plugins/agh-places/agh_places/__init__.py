"""Places for agents to run: another machine, a container, a cluster, a scope with limits."""
