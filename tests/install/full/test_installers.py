"""Every documented way to install agh, with the real installers, from an index that has a stranger too.

It needs a package index for the packages that agh needs, and the programs of `make install-test`.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from agh import __version__
from tests.install.packages import README, ROOT, Environment, run, serve_index, write_plugin, write_stranger

TOOLS = Path(sys.executable).parents[1] / "install/bin"
SECTION = README.partition("\n## Install\n")[2].partition("\n## ")[0]
BLOCKS = re.findall(r"^```shell\n(.*?)^```$", SECTION, flags=re.M | re.S)
LINES = [line.partition("#")[0].strip() for block in BLOCKS for line in block.splitlines()]
NEEDED = ["hatchling", "editables", "pip", "setuptools"]  # by builds from source, and by pipx


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory, wheel: Path, sdist: Path) -> Iterator[str]:
    """An index with this agh, all that it needs, and the stranger; nothing else can be reached."""
    folder = tmp_path_factory.mktemp("index")
    run(TOOLS / "python", "-m", "pip", "download", "-q", "-d", folder, f"{wheel}[all]", *NEEDED, timeout=600)
    shutil.copy(sdist, folder)
    write_stranger(folder)
    with serve_index(folder) as url:
        yield url


class User(Environment):
    """Someone with a virtual environment of their own, uv and pipx, who knows only that index."""

    def __init__(self, folder: Path, index: str) -> None:
        super().__init__(folder, with_pip=True)
        own = self.user / ".local/bin"
        self.variables |= {
            "PATH": os.pathsep.join([str(self.bin), str(own), str(folder / "tools"), "/usr/bin", "/bin"]),
            "PIP_INDEX_URL": index,
            "UV_DEFAULT_INDEX": index,
            "UV_NO_CONFIG": "1",
            "UV_CACHE_DIR": str(folder / "cache"),
            "UV_PYTHON_DOWNLOADS": "never",
            "UV_PYTHON": os.path.realpath(sys.executable),
            "PIPX_DEFAULT_PYTHON": os.path.realpath(sys.executable),
        }
        (folder / "tools").mkdir()
        for program in ("uv", "uvx", "pipx"):
            (folder / "tools" / program).symlink_to(TOOLS / program)

    def sh(
        self, line: str, code: int | None = 0, cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        result: subprocess.CompletedProcess[str] = self.run(
            "bash", "-c", line, code=code, cwd=cwd or self.user, timeout=300
        )
        return result


@pytest.fixture
def user(tmp_path: Path, index: str) -> User:
    return User(tmp_path / "fresh", index)


def check_agh(user: User) -> None:
    """Check what every installation has: ours, the echo agent, the manual, the completions."""
    assert user.sh("agh --version").stdout == f"agh {__version__}\n"
    assert user.sh("agh run --agent echo -o text '/say hi there'").stdout == "hi there\n"
    assert "agh-session-prompt - " in user.sh("agh man session prompt").stdout
    assert "_agh()" in user.sh("agh completion bash").stdout
    assert user.sh("agh completion fish --install").stdout.endswith("/agh.fish: installed\n")
    assert (user.user / ".config/fish/completions/agh.fish").exists()


def check_serve(user: User) -> None:
    """Check that `agh serve` runs; if it names its extra, run the line that it gives first."""
    result = user.sh("timeout 2 agh serve --port 0", code=None)
    if result.returncode == 9:
        (line,) = re.findall(r"^hint: (.*)$", result.stderr, flags=re.M)
        user.sh(line)
    environment = {**os.environ, **user.variables}
    program = shutil.which("agh", path=user.variables["PATH"])
    with subprocess.Popen(
        [str(program), "serve", "--port", "0"], env=environment, stdout=subprocess.PIPE, text=True
    ) as server:
        assert server.stdout is not None
        try:
            assert server.stdout.readline().startswith("listening on http://127.0.0.1:")
        finally:
            server.send_signal(signal.SIGINT)
            server.wait(30)


CHECKS = {
    "uv": 'uv pip check --python "$(uv tool dir)/agh-cli/bin/python"',
    "pipx": "pipx runpip agh-cli check",
    "pip": "pip check",
}
UPGRADES = {"uv": "uv tool upgrade agh-cli", "pipx": "pipx upgrade agh-cli", "pip": "pip install -U agh-cli"}


def test_the_readme_has_lines_for_every_installer() -> None:
    assert {line.split()[0] for line in LINES} == {"uv", "pipx", "pip"}
    assert len(LINES) == 6


@pytest.mark.parametrize("line", LINES)
def test_a_documented_line(user: User, tmp_path: Path, line: str) -> None:
    installer = line.split()[0]
    user.sh(line, cwd=ROOT)
    check_agh(user)
    if installer != "uv" and shutil.which("man"):  # uv links no manual pages; agh man shows them
        assert user.sh("man -w agh-run").stdout.endswith("/man1/agh-run.1\n")
    check_serve(user)
    write_plugin(tmp_path / "plugin")
    result = user.sh(f"agh plugins install {shlex.quote(str(tmp_path / 'plugin'))}")
    assert result.stdout.splitlines()[1].split()[:2] == ["hello", "agh_hello-1"]
    user.sh(UPGRADES[installer])
    assert user.sh("agh hello").stdout == "hello\n"
    check_serve(user)
    assert user.sh("agh --version").stdout == f"agh {__version__}\n"
    user.sh(CHECKS[installer])


@pytest.mark.parametrize("installer", ["pip install", "pipx install --backend pip", "uv tool install"])
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_a_file(user: User, wheel: Path, sdist: Path, tmp_path: Path, installer: str, kind: str) -> None:
    user.sh(f"{installer} {wheel if kind == 'wheel' else sdist}")
    check_agh(user)
    user.sh(f"agh plugins install {write_plugin(tmp_path / 'plugin')}")
    check_serve(user)
    assert user.sh("agh hello").stdout == "hello\n"
    user.sh(CHECKS[installer.split()[0]])


def test_the_stranger_is_what_agh_means_there(user: User) -> None:
    user.sh("pip install agh")
    assert user.sh("agh").stdout == "I am a stranger\n"


def test_a_plugin_brings_ours(user: User, tmp_path: Path) -> None:
    """As a user without agh installs the plugin of docs/plugins.md."""
    folder = write_plugin(tmp_path / "plugin")
    user.sh("pip install .", cwd=folder)
    assert user.sh("agh hello").stdout == "hello\n"
    user.sh("pip install -U agh-cli")
    check_agh(user)
    user.sh("pip check")


def test_a_second_plugin_leaves_the_first(user: User, tmp_path: Path) -> None:
    """uv's receipt lists everything that the tool was installed with; it must not lose any of it."""
    first = write_plugin(tmp_path / "first")
    second = write_plugin(tmp_path / "second")
    for name in ("pyproject.toml", "agh_hello.py"):
        text = (second / name).read_text().replace("agh_hello", "agh_bye").replace("agh-hello", "agh-bye")
        (second / name).write_text(text.replace("hello", "bye"))
    (second / "agh_hello.py").rename(second / "agh_bye.py")
    user.sh("uv tool install 'agh-cli[serve]'")
    for folder in (first, second):
        user.sh(f"agh plugins install {folder}")
    user.sh("uv tool upgrade agh-cli")
    assert (user.sh("agh hello").stdout, user.sh("agh bye").stdout) == ("hello\n", "bye\n")
    check_serve(user)


def test_the_files_are_fit_for_an_index(wheel: Path, sdist: Path) -> None:
    run(TOOLS / "twine", "check", "--strict", wheel, sdist)
    run(TOOLS / "check-wheel-contents", wheel, cwd=ROOT)
