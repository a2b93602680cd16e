"""Councils under test: real keepers, real members, on the embedded agent."""

from tests.plugins.council.support import council  # noqa: F401
