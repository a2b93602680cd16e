"""`make docs`: write what is made from the commands. `python -m tools --check` says what is out of date.

Made are the pages of `man/man1`, the hooks and fields in `man/man7/agh-plugins.7`, and the table behind the
Tab key. Only the plugins of this repository count, so that the result is the same on every machine.
"""

from __future__ import annotations

import json
import os
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "agh/cli/completions/commands.json"
MAN = ROOT / "man"


def plugins() -> list[str]:
    """The entry points of the plugins in this repository."""
    found: list[str] = []
    for path in sorted(ROOT.glob("plugins/*/pyproject.toml")):
        found += tomllib.loads(path.read_text())["project"].get("entry-points", {}).get("agh", {})
    return sorted(found)


def documents() -> dict[Path, str]:
    """Every file that is made, and its text."""
    os.environ["AGH_PLUGINS"] = ",".join(plugins())
    from agh.cli.main import root
    from tools import contract, manpages

    page = MAN / "man7/agh-plugins.7"
    text = contract.filled(page.read_text(), "hooks", contract.hooks())
    return {
        TABLE: table(root),
        page: contract.filled(text, "agents", contract.agent_fields()),
        **{MAN / "man1" / name: text for name, text in manpages.manual(root).items()},
    }


def table(root: Any) -> str:
    """The table of commands as JSON, a command to a line, so that a change is easy to see."""
    from agh.cli.tree import describe

    lines = [f"{_json(path)}:{_json(entry)}" for path, entry in describe(root).items()]
    return f'{{"plugins":{_json(plugins())},"commands":{{\n' + ",\n".join(lines) + "\n}}\n"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def main(arguments: list[str]) -> int:
    made = documents()
    stale = [path for path, text in made.items() if not path.exists() or path.read_text() != text]
    left = sorted(set((MAN / "man1").glob("*.1")) - set(made))
    checking = arguments == ["--check"]
    if not checking:
        for path in stale:
            path.write_text(made[path])
        for path in left:
            path.unlink()
    for path in stale + left:
        print(path.relative_to(ROOT))
    return 1 if checking and (stale or left) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
