"""Councils: several agents deliberate in rounds, each in its own session, and produce a memo."""
