"""Kinds of sessions that plugins run. An ordinary session has no kind: it runs in `agh.keeper.main`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from agh.core.named_tuple import NamedTuple
from agh.home import Session


class Kind(NamedTuple):
    """A kind of session.

    `keeper` is a module that `python -m` runs with the same arguments and promises as `agh.keeper.main`.
    `checkpoint(session, elapsed)` derives the checkpoint of such a session from its log.
    """

    name: str
    keeper: str
    checkpoint: Callable[[Session, float | None], dict[str, Any]]
