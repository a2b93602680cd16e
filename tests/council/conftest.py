"""Councils under test: real keepers, real members, on the embedded agent."""

from tests.council.support import council  # noqa: F401
from tests.support.live import live  # noqa: F401
