"""The redactor for everything that leaves agh: errors, failures, crash bundles, recaps, redacted exports.

It hides the secrets of an environment, what looks like a secret, and what the user's settings and the plugins
describe. A pattern that is wrong hides nothing, and never keeps a command from working.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from agh.core.named_tuple import NamedTuple
from agh.core.redaction.redact import Redactor, redactor
from agh.errors import AghError
from agh.home import home_path


class Redaction(NamedTuple):
    """A plugin's pattern for a kind of secret. If it has a group `secret`, only that is hidden."""

    name: str
    pattern: re.Pattern[str]


def redactor_for(environ: Mapping[str, str], workspace: str | None, *, plugins: bool = True) -> Redactor:
    """Return the redactor for what leaves a session of this environment and workspace.

    Without `plugins` none is loaded: for text from a keeper, which has used their patterns already.
    """
    return redactor(environ, [*_configured(workspace, home_path()), *(_offered() if plugins else ())])


@cache
def _configured(workspace: str | None, home: str) -> tuple[re.Pattern[str], ...]:
    """Return the patterns of the user, and those that a trusted workspace adds."""
    from agh import config

    try:
        return tuple(config.load(workspace)["redaction.patterns"])
    except AghError:
        return ()


@cache
def _offered() -> tuple[re.Pattern[str], ...]:
    from agh.adapters import registry

    return tuple(redaction.pattern for redaction in registry.redactions().values())


def redaction(offer: object, source: str) -> Redaction:
    """Return what a plugin registered, checked: a `Redaction`, or a name and a pattern."""
    name, pattern = offer if isinstance(offer, tuple) and len(offer) == 2 else (None, None)
    if not isinstance(name, str) or not isinstance(pattern, str | re.Pattern):
        raise ValueError(f"{source}: a redaction is a name and a pattern, not {offer!r}")
    return Redaction(name, re.compile(pattern))
