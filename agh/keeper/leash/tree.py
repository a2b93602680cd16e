"""Leaving the tree of processes of whoever started a keeper. Imports nothing that takes long."""

import os
import sys

ORPHAN = "orphan"  # the argument of a keeper that is to leave the tree of the process that starts it


def leave_tree() -> None:
    """Leave the tree of the process that started this keeper, if it was told to."""
    if ORPHAN in sys.argv[3:]:
        sys.argv.remove(ORPHAN)
        if os.fork():
            os._exit(0)
        os.setsid()  # whoever ends the group of the process above must not end this one
