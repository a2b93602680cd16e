"""`agh completion`: print the script for the Tab key, or install it where the shell looks for it."""

from __future__ import annotations

import os

import click

from agh.adapters.installation import shipped_path
from agh.console.output import remark, write_text, write_utf8
from agh.console.terminal import clean
from agh.errors import FileTaken, OutputFailed, Usage
from agh.home import replace_file

FILES = {"bash": "agh.bash", "zsh": "_agh", "fish": "agh.fish"}
OURS = "# Tab completion of agh for "
LOADERS = (
    "/usr/share/bash-completion/bash_completion",
    "/usr/local/share/bash-completion/bash_completion",
    "/opt/homebrew/share/bash-completion/bash_completion",
    "/etc/bash_completion",
)


@click.command(
    "completion",
    epilog="\b\nExamples:\n  agh completion --install\n  agh completion zsh --install\n"
    "  agh completion bash > ~/agh.bash",
)
@click.argument("shell", type=click.Choice(list(FILES)), required=False)
@click.option(
    "--install", is_flag=True, help="Install it where the shell looks for it (default: your own shell)."
)
@click.option("--force", is_flag=True, help="With --install: replace a file that agh did not write.")
def completion(shell: str | None, install: bool, force: bool) -> None:
    """Print the script for Tab completion in a shell, or install it.

    It completes commands, options, sessions (with name, agent and status), agents, workspaces, event types
    and settings.
    """
    if force and not install:
        raise Usage("--force needs --install", hint="agh completion --install --force")
    if install:
        install_script(shell or _login_shell(), force)
    elif shell is None:
        raise Usage(f"name a shell: {', '.join(FILES)}", hint="agh completion --install")
    else:
        write_utf8(script(shell))


def script(shell: str) -> str:
    with open(shipped_path("completions", FILES[shell]), encoding="utf-8") as file:
        return file.read()


def install_script(shell: str, force: bool) -> None:
    """Write the script to the user's directory for the shell; say what was written and what is left to do.

    Raise FileTaken for a file that is not from agh, unless `force` is set.
    """
    path, text = target(shell), script(shell)
    previous = _read(path)
    if previous is not None and OURS not in previous and not force:
        raise FileTaken(path)
    if previous == text:
        outcome = "up to date"
    else:
        _write(path, text)
        outcome = "installed" if previous is None else "updated" if OURS in previous else "overwritten"
    write_text(clean(f"{path}: {outcome}") + "\n")
    for line in remarks(shell, path):
        remark(line)


def target(shell: str) -> str:
    """Return the file that the shell reads for the user, or the usual one for zsh, which has no such rule."""
    data = os.environ.get("XDG_DATA_HOME") or os.path.expanduser("~/.local/share")
    if shell == "bash":
        folder = os.environ.get("BASH_COMPLETION_USER_DIR") or os.path.join(data, "bash-completion")
        return os.path.join(folder.split(os.pathsep)[0], "completions", "agh")
    if shell == "zsh":
        return os.path.join(data, "zsh", "site-functions", FILES[shell])
    settings = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return os.path.join(settings, "fish", "completions", FILES[shell])


def remarks(shell: str, path: str) -> list[str]:
    """Return what the user has left to do before the shell reads the file."""
    if shell == "bash" and not any(map(os.path.exists, LOADERS)):
        return [
            "bash reads it if the package bash-completion is installed; otherwise add to ~/.bashrc:",
            '  eval "$(agh completion bash)"',
        ]
    if shell == "zsh":
        folder = os.path.dirname(path)
        file = os.path.join(os.environ.get("ZDOTDIR") or os.path.expanduser("~"), ".zshrc")
        short = folder.replace(os.path.expanduser("~"), "~", 1)
        if not any(name in (_read(file) or "") for name in (folder, short)):
            return [f"zsh reads it if {file} has this line before compinit:", f"  fpath=({short} $fpath)"]
    return []


def _login_shell() -> str:
    name = os.path.basename(os.environ.get("SHELL") or "")
    if name not in FILES:
        problem = f"there is no completion for {name}" if name else "SHELL is not set"
        raise Usage(f"{problem}; name a shell: {', '.join(FILES)}", hint="agh completion bash --install")
    return name


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace", newline="") as file:
            return file.read()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Usage(f"cannot read {path}: {error.strerror}", hint=f"ls -l {path}") from None


def _write(path: str, text: str) -> None:
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        replace_file(path, text.encode(), mode=0o644)
    except OSError as error:
        hint = "agh completion SHELL prints the script instead"
        raise OutputFailed(f"{path}: {error.strerror}", hint=hint) from None
