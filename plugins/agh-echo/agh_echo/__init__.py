"""A scripted agent for the Agent Client Protocol: standard library only, one thread, one process."""

__version__ = "0.1.0"
