"""Kinds of sessions that plugins keep. An ordinary session has no kind: `agh.keeper.main` keeps it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple


class Kind(NamedTuple):
    """`keeper` is a module that is run as `agh.keeper.main` is, with the same arguments and promises.

    `checkpoint(directory, elapsed)` derives the checkpoint of such a session from its log.
    """

    name: str
    keeper: str
    checkpoint: Callable[[str, float | None], dict[str, Any]]
