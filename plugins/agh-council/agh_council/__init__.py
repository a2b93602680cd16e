"""Councils: several agents deliberate in rounds, each in a session of its own, and a memo comes of it."""
