"""`make docs`: generate documents from the commands. `python -m tools --check` lists those out of date.

It generates the pages of `man/man1`, agh-config(5), agh-tutorial(7), the hooks and fields in
agh-plugins(7), and the table for shell completion. It uses only the plugins of this repository, so the
result is the same on every machine.
"""

from __future__ import annotations

import json
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "agh/cli/commands.json"
MAN = ROOT / "man"


def plugins() -> list[str]:
    """Return the entry points of the plugins in this repository."""
    entry_points: list[str] = []
    for path in sorted(ROOT.glob("plugins/*/pyproject.toml")):
        entry_points += tomllib.loads(path.read_text())["project"].get("entry-points", {}).get("agh", {})
    return sorted(entry_points)


def documents() -> dict[Path, str]:
    """Return every generated file with its text."""
    os.environ["AGH_PLUGINS"] = ",".join(plugins())
    from agh.cli.main import root
    from tools import contract, manpages, settings, tutorial

    page = MAN / "man7/agh-plugins.7"
    text = contract.fill(page.read_text(), "hooks", contract.hooks())
    return {
        TABLE: table(root),
        page: contract.fill(text, "agents", contract.agent_fields()),
        MAN / "man5/agh-config.5": settings.page(),
        MAN / "man7/agh-tutorial.7": tutorial.page(),
        **{MAN / "man1" / name: text for name, text in manpages.manual(root).items()},
    }


def table(root: Any) -> str:
    """Return the table of commands as JSON, one command per line to keep diffs small."""
    from agh.cli.tree import describe, short_names

    lines = [f"{_json(path)}:{_json(entry)}" for path, entry in describe(root).items()]
    head = f'"plugins":{_json(plugins())},\n"short":{_json(short_names(root))}'
    return f'{{{head},\n"commands":{{\n' + ",\n".join(lines) + "\n}}\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def main(arguments: list[str]) -> int:
    texts = documents()
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    leftover = sorted(set((MAN / "man1").glob("*.1")) - set(texts))
    check_only = arguments == ["--check"]
    if not check_only:
        for path in stale:
            path.write_text(texts[path])
        for path in leftover:
            path.unlink()
    for path in stale + leftover:
        print(path.relative_to(ROOT))
    return 1 if check_only and (stale or leftover) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
