"""`agh skill`: what it teaches is true, and installing it never destroys anything."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import click
import pytest

from agh.cli import skill
from agh.cli.main import root
from tests.support.files import tree
from tests.support.program import in_process

LINES = re.findall(r"^(?:.*\| )?agh ([a-z].*)$", skill.text(), re.MULTILINE)


def install(*args: str, code: int = 0) -> list[str]:
    result = in_process("skill", "install", *args, "-o", "json")
    assert result.returncode == code, (result.stdout, result.stderr)
    return [one["was"] for one in json.loads(result.stdout)["installed"]] if not code else []


def test_it_is_a_skill_file() -> None:
    printed = in_process("skill", "show").stdout
    assert printed == skill.text()
    assert re.match(r"---\nname: agh\ndescription: \S.{50,1000}\n---\n", printed)
    assert len(printed) < 6000, "an agent reads it whole"
    assert json.loads(in_process("skill", "show", "-o", "json").stdout)["skill"]["text"] == printed


@pytest.mark.parametrize("line", LINES)
def test_every_command_in_it_exists(line: str) -> None:
    words = shlex.split(line.split("  #")[0].split(" # ")[0])
    command: click.Command = root
    context = click.Context(root, **root.context_settings)
    while isinstance(command, click.Group):
        subcommand = command.get_command(context, words.pop(0))
        assert subcommand is not None, line
        command = subcommand
    earlier = {opt for param in command.params for opt in (*param.opts, *param.secondary_opts)}
    assert {word for word in words if word.startswith("-") and word != "-"} <= earlier
    with command.make_context(command.name, words, parent=context) as parsed:
        assert parsed.params


def test_there_are_commands_to_check() -> None:
    assert len(LINES) > 15


def test_installed_where_the_agents_look(tmp_path: Path) -> None:
    user = tmp_path / "user"
    assert install("claude", "codex", "agents") == ["missing", "missing"]
    for folder in (".claude", ".agents"):
        assert (user / folder / "skills" / "agh" / "SKILL.md").read_text() == skill.text()
    before = tree(user)
    assert install("claude") == ["current"]
    assert tree(user) == before
    assert install("--dir", str(tmp_path / "repo" / "skills")) == ["missing"]
    assert (tmp_path / "repo" / "skills" / "agh" / "SKILL.md").exists()


def test_a_file_that_was_changed_stays(tmp_path: Path) -> None:
    install("claude")
    path = tmp_path / "user" / ".claude" / "skills" / "agh" / "SKILL.md"
    changed = path.read_text().replace("stdout is data", "stdout is DATA")
    path.write_text(changed)
    result = in_process("skill", "install", "codex", "claude", "-o", "json")
    assert (result.returncode, json.loads(result.stderr)["error"]["code"]) == (6, "skill_changed")
    assert path.read_text() == changed
    assert not (tmp_path / "user" / ".agents").exists(), "all or nothing"
    assert install("claude", "--force") == ["changed"]
    assert path.read_text() == skill.text()


def test_a_file_of_someone_else_stays(tmp_path: Path) -> None:
    path = tmp_path / "skills" / "agh" / "SKILL.md"
    path.parent.mkdir(parents=True)
    for text in ("", "mine", skill.text() + "more\n", skill.text().replace("\n", "\r\n")):
        path.write_bytes(text.encode())
        install("--dir", str(tmp_path / "skills"), code=6)
        assert path.read_bytes() == text.encode()


def test_an_older_version_is_brought_up_to_date(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new = skill.text()
    body = "---\nname: agh\n---\nwhat agh could do a year ago\n"
    monkeypatch.setattr(skill, "text", lambda: f"{body}\n<!-- agh skill {skill._hash(body)} -->\n")
    install("claude")
    monkeypatch.setattr(skill, "text", lambda: new)
    assert install("claude") == ["older"]
    assert (tmp_path / "user" / ".claude" / "skills" / "agh" / "SKILL.md").read_text() == new


def test_bad_input(tmp_path: Path) -> None:
    for args in ((), ("claude", "--dir", "x"), ("vim",)):
        install(*args, code=2)
    (tmp_path / "file").write_text("")
    install("--dir", str(tmp_path / "file"), code=2)
