"""`agh completion --install`: the script is where each shell looks, and nothing foreign is lost."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agh.cli.completion import FILES, script
from tests.support.program import AGH, Agh

PATHS = {
    "bash": ".local/share/bash-completion/completions/agh",
    "zsh": ".local/share/zsh/site-functions/_agh",
    "fish": ".config/fish/completions/agh.fish",
}


def target(shell: str) -> Path:
    return Path(os.environ["HOME"], PATHS[shell])


@pytest.mark.parametrize("shell", FILES)
def test_it_is_written_once(agh: Agh, shell: str) -> None:
    path = target(shell)
    assert agh("completion", shell, "--install").stdout == f"{path}: installed\n"
    assert path.read_text() == script(shell)
    assert path.stat().st_mode & 0o777 == 0o644
    before = path.stat().st_mtime_ns
    assert agh("completion", shell, "--install").stdout == f"{path}: up to date\n"
    assert path.stat().st_mtime_ns == before
    path.write_text(script(shell).replace("_agh()", "_agh_of_an_older_version()") + "# older\n")
    assert agh("completion", shell, "--install").stdout == f"{path}: updated\n"
    assert path.read_text() == script(shell)


def test_the_users_own_shell(agh: Agh) -> None:
    env = {**os.environ, "SHELL": "/usr/bin/fish"}
    assert agh("completion", "--install", env=env).stdout == f"{target('fish')}: installed\n"
    for shell in ("/bin/tcsh", ""):
        result = agh("completion", "--install", env={**os.environ, "SHELL": shell}, code=2)
        assert "name a shell: bash, zsh, fish" in result.stderr
    assert "name a shell" in agh("completion", code=2).stderr


def test_a_file_of_someone_else_stays(agh: Agh) -> None:
    path = target("bash")
    path.parent.mkdir(parents=True)
    path.write_text("# my own\n")
    result = agh("completion", "bash", "--install", code=2)
    assert f"{path} already exists" in result.stderr
    assert path.read_text() == "# my own\n"
    assert agh("completion", "bash", "--install", "--force").stdout == f"{path}: overwritten\n"
    assert path.read_text() == script("bash")
    assert "--force needs --install" in agh("completion", "bash", "--force", code=2).stderr


def test_a_folder_that_cannot_be_written(agh: Agh) -> None:
    Path(os.environ["HOME"], ".config").write_text("a file")
    result = agh("completion", "fish", "--install", code=None)
    assert result.returncode in (1, 2)
    assert "agh.fish: " in result.stderr


@pytest.mark.parametrize(
    ("shell", "variable", "place"),
    [
        ("bash", "XDG_DATA_HOME", "bash-completion/completions/agh"),
        ("bash", "BASH_COMPLETION_USER_DIR", "completions/agh"),
        ("zsh", "XDG_DATA_HOME", "zsh/site-functions/_agh"),
        ("fish", "XDG_CONFIG_HOME", "fish/completions/agh.fish"),
    ],
)
def test_where_the_user_keeps_such_things(
    agh: Agh, tmp_path: Path, shell: str, variable: str, place: str
) -> None:
    agh("completion", shell, "--install", env={**os.environ, variable: str(tmp_path / "x")})
    assert (tmp_path / "x" / place).read_text() == script(shell)


def test_zsh_is_told_once_where_to_look(agh: Agh) -> None:
    result = agh("completion", "zsh", "--install")
    *_, line = result.stderr.splitlines()
    assert line == "  fpath=(~/.local/share/zsh/site-functions $fpath)"
    Path(os.environ["HOME"], ".zshrc").write_text(f"{line}\nautoload -Uz compinit && compinit -u\n")
    assert agh("completion", "zsh", "--install").stderr == ""


LOADER = "/usr/share/bash-completion/bash_completion"
CHECKS = {
    "bash": f"source {LOADER}; _comp_load agh 2>/dev/null || __load_completion agh; complete -p agh",
    "zsh": "source ~/.zshrc; echo $_comps[agh]",
    "fish": "complete -C 'agh plug'",
}


@pytest.mark.parametrize("shell", FILES)
def test_the_shell_finds_it(agh: Agh, shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here")
    if shell == "bash" and not Path(LOADER).exists():
        assert 'eval "$(agh completion bash)"' in agh("completion", shell, "--install").stderr
        return
    agh("completion", shell, "--install")
    line = "fpath=(~/.local/share/zsh/site-functions $fpath)\nautoload -Uz compinit && compinit -u\n"
    Path(os.environ["HOME"], ".zshrc").write_text(line)
    env = {**os.environ, "PATH": f"{Path(AGH).parent}:{os.environ['PATH']}"}
    options = ["--norc"] if shell == "bash" else ["-f"] if shell == "zsh" else []
    result = subprocess.run(
        [shell, *options, "-c", CHECKS[shell]],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=30,
    )
    expected = {"bash": "-F _agh agh", "zsh": "_agh\n", "fish": "plugins\t"}
    assert expected[shell] in result.stdout, result.stderr
