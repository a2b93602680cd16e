"""agh runs coding agents as durable sessions on local files."""

__version__ = "0.1.0"
