"""Fixtures for every test. No test can touch the real home: HOME and AGH_HOME point into tmp_path."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.build import Home
from tests.support.rounds import share_out

REAL_HOME = Path(os.path.expanduser("~")) / ".agh"
AGH = str(Path(sys.executable).with_name("agh"))


def pytest_configure() -> None:
    """In the background of a script SIGINT is ignored, under nohup SIGHUP: not by the programs under test."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    share_out(items)


@pytest.fixture(autouse=True)
def private_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of the test's own; a test that makes the real one appear fails."""
    existed = REAL_HOME.exists()
    for name in [name for name in os.environ if name.startswith(("AGH_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    monkeypatch.setenv("AGH_HOME", str(tmp_path / "agh"))
    monkeypatch.setenv("COLUMNS", "120")
    (tmp_path / "user").mkdir()
    yield tmp_path / "agh"
    assert existed or not REAL_HOME.exists(), "a test wrote to the real home"


@pytest.fixture
def home(private_home: Path) -> Home:
    return Home(private_home)


class Agh:
    """The installed program."""

    def __call__(
        self, *args: object, code: int | None = 0, **kwargs: object
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            [AGH, *map(str, args)],
            **{"stdin": subprocess.DEVNULL, "capture_output": True, "text": True, "timeout": 60, **kwargs},  # type: ignore[call-overload]
        )
        assert code is None or done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done  # type: ignore[no-any-return]

    def start(self, *args: object, **kwargs: object) -> subprocess.Popen[bytes]:
        return subprocess.Popen([AGH, *map(str, args)], **{"stdin": subprocess.DEVNULL, **kwargs})  # type: ignore[call-overload,no-any-return]


@pytest.fixture(scope="session")
def agh() -> Agh:
    return Agh()
