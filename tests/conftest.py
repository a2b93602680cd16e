"""Fixtures for every test. No test can touch the real home: HOME and AGH_HOME point into tmp_path."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.build import Home
from tests.support.rounds import share_out
from tests.support.warm import Program

REAL_HOME = Path(os.path.expanduser("~")) / ".agh"
COMPLETE = "AGH_TEST_ALL" in os.environ
AGH = str(Path(sys.executable).with_name("agh"))


def pytest_configure() -> None:
    """In the background of a script SIGINT is ignored, under nohup SIGHUP: not by the programs under test."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With AGH_TEST_ALL, fail a test that is skipped, unless it is only for the soak."""
    report = yield
    if COMPLETE and report.skipped and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        if "make soak" not in reason:
            report.outcome, report.longrepr = "failed", f"{item.nodeid} must not be skipped: {reason}"
    return report


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
    """The program."""

    def __call__(
        self, *args: object, code: int | None = 0, timeout: float = 60, **kwargs: Any
    ) -> subprocess.CompletedProcess[str]:
        if "input" in kwargs:
            kwargs["stdin"] = subprocess.PIPE
        given = kwargs.pop("input", None)
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        with self.start(*args, **{**pipes, **kwargs}) as process:
            try:
                out, err = process.communicate(given, timeout)
            except BaseException:
                process.kill()
                raise
        assert code is None or process.returncode == code, (process.returncode, out, err)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def start(self, *args: object, by_exec: bool = False, **kwargs: Any) -> subprocess.Popen[Any]:
        begin = subprocess.Popen if by_exec else Program
        return begin([AGH, *map(str, args)], **{"stdin": subprocess.DEVNULL, **kwargs})


@pytest.fixture(scope="session")
def agh() -> Agh:
    return Agh()
