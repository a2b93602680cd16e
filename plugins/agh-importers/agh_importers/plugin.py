"""The plugin: registers importers for three kinds of files with `agh session import`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import agh

if TYPE_CHECKING:
    from agh.core.exchange import Importer


@agh.hookimpl
def agh_register_importers(register: Callable[[Importer], None]) -> None:
    from agh.core.exchange import Importer
    from agh_importers import claude, codex, gemini

    # First, because its files look like Claude's at first sight.
    register(Importer("gemini", "Gemini CLI's ~/.gemini/tmp", gemini.recognises, gemini.read, gemini.find))
    register(
        Importer("claude", "Claude Code's ~/.claude/projects", claude.recognises, claude.read, claude.find)
    )
    register(Importer("codex", "Codex's ~/.codex/sessions", codex.recognises, codex.read, codex.find))
