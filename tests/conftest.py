"""Fixtures for every test. No test can touch the real home: HOME and AGH_HOME point into tmp_path."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import sys
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.build import ROOT, Home
from tests.support.live import Live, Session, Share, living
from tests.support.program import Agh
from tests.support.resume import talked, talked_home
from tests.support.rounds import rounds, share_out
from tests.support.site import site
from tests.support.wait import wait_until

__all__ = ["rounds", "site", "talked", "talked_home"]

REAL_HOME = Path(os.path.expanduser("~")) / ".agh"
COMPLETE = "AGH_TEST_ALL" in os.environ
IN_MEMORY = "/dev/shm"  # a log is synced at every commit, which on a disk takes longer than most tests
SEVERAL = 50  # test modules
ENOUGH = 2 << 30  # bytes; the whole suite leaves a tenth of that


def pytest_configure() -> None:
    """Keep files in memory; let the programs have SIGINT and SIGHUP, which scripts and nohup ignore."""
    if _is_fit_for_tests(IN_MEMORY):
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", IN_MEMORY)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


def _is_fit_for_tests(path: str) -> bool:
    """Tell whether files can be written and run there; a container's /dev/shm is often small and noexec."""
    try:
        disk = os.statvfs(path)
    except OSError:
        return False
    barred = disk.f_flag & (os.ST_NOEXEC | os.ST_RDONLY)
    return not barred and disk.f_bavail * disk.f_frsize > ENOUGH and os.access(path, os.W_OK | os.X_OK)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """With AGH_TEST_ALL, fail a test that is skipped, unless it is only for the soak."""
    report = yield
    if COMPLETE and report.skipped and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        if "make soak" not in reason:
            report.outcome, report.longrepr = "failed", f"{item.nodeid} must not be skipped: {reason}"
    return report


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collect the tests without looking for garbage: almost nothing of theirs becomes any."""
    gc.disable()
    try:
        import_share(session)
        return (yield)
    finally:
        gc.enable()


def import_share(session: pytest.Session) -> None:
    """Let each worker import its share of a large folder first: the others find it compiled."""
    worker, workers = (os.environ.get(f"PYTEST_XDIST_WORKER{end}", "") for end in ("", "_COUNT"))
    files = sorted(file for path in session.config.args for file in Path(path).rglob("test_*.py"))
    ignored = [session.config.rootpath / path for path in session.config.getoption("ignore") or ()]
    if worker and len(files) > SEVERAL:
        sys.dont_write_bytecode = False
        for file in files[int(worker.removeprefix("gw")) :: int(workers)]:
            if not any(file.absolute().is_relative_to(path) for path in ignored):
                name = ".".join(file.absolute().relative_to(ROOT).with_suffix("").parts)
                with suppress(Exception):  # which the collection will report
                    importlib.import_module(name)


def pytest_collection_finish() -> None:
    """Let no collection of garbage look again at what stays to the end; it is most of a worker's memory."""
    gc.collect()
    gc.freeze()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    share_out(items)
    items[:] = slow_ones_first(items, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def slow_ones_first(items: list[pytest.Item], workers: int) -> list[pytest.Item]:
    """Return the tests in an order in which each worker begins with its share of the slow ones.

    At first a worker gets a piece of the list. A slow test at the end of it would run while the others idle.
    """
    slow, others = list[pytest.Item](), list[pytest.Item]()
    for item in items:
        is_slow = item.get_closest_marker("slow") or item.get_closest_marker("soak")
        (slow if is_slow else others).append(item)
    bounds = [len(others) * number // workers for number in range(workers + 1)]
    pieces = [slow[n::workers] + others[bounds[n] : bounds[n + 1]] for n in range(workers)]
    return [item for piece in pieces for item in piece]


@pytest.fixture(autouse=True)
def private_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give the test a home of its own; fail a test that makes the real one appear."""
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


@pytest.fixture(scope="session")
def agh() -> Agh:
    return Agh()


@pytest.fixture
def live(private_home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    """Yield a home for live sessions; at the end they are stopped, and no process of theirs is left."""
    monkeypatch.setenv("AGH_ECHO_HOME", str(tmp_path / "echo"))
    with living(private_home, tmp_path / "work") as live:
        yield live


@pytest.fixture(scope="module")
def module_live(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """Yield a home whose live sessions last for all tests of a module; the tests use `shared_live`."""
    root = tmp_path_factory.mktemp("module")
    (root / "user").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        _use_homes(patch, root)
        with living(root / "agh", root / "work") as live:
            yield live


@pytest.fixture(scope="module")
def module_session(module_live: Live) -> Session:
    return module_live.new()


@pytest.fixture
def shared_live(module_live: Live, private_home: Path, monkeypatch: pytest.MonkeyPatch) -> Live:
    """Return the home that the tests of a module share, for sessions that a fixture of theirs has started."""
    _use_homes(monkeypatch, module_live.home.parent)
    return module_live


@pytest.fixture
def shared(shared_live: Live, module_session: Session) -> Iterator[Session]:
    """Yield a live session of the scripted agent that the tests of a module share.

    For tests that look at a turn of their own: earlier tests have left their events in the log, though the
    methods of `Session` do not return them. A test that stops, kills or changes the session wants `live`.
    """
    session = module_session.from_now()
    yield session
    session.cancel_all()


@pytest.fixture(scope="module")
def module_sessions(module_live: Live) -> dict[object, Session]:
    return {}


@pytest.fixture
def shared_with(shared_live: Live, module_sessions: dict[object, Session]) -> Iterator[Share]:
    """Yield a function that returns a shared session like `shared`, with these settings and options."""
    sessions = list[Session]()

    def share(settings: str = "", *args: object) -> Session:
        key = settings, args
        if key not in module_sessions or not module_sessions[key].is_live():
            shared_live.configure(settings)
            module_sessions[key] = shared_live.new(args=args)
            shared_live.configure("")
        wait_until(lambda: not module_sessions[key].meta()["attach"], what="nobody is attached")
        sessions.append(module_sessions[key].from_now())
        return sessions[-1]

    yield share
    for session in sessions:
        if session.is_live():
            session.cancel_all()
            if lease := session.meta()["attach"]:
                session.call("detach", holder=lease["attached_to"])


def _use_homes(patch: pytest.MonkeyPatch, root: Path) -> None:
    for name, folder in {"HOME": "user", "AGH_HOME": "agh", "AGH_ECHO_HOME": "echo"}.items():
        patch.setenv(name, str(root / folder))
