"""Ways to run the installed program and to look at what it did: on a terminal, in a shell, followed."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from agh.cli.main import run
from tests.support.wait import PATIENCE
from tests.support.warm import Program

AGH = str(Path(sys.executable).with_name("agh"))


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


def bug(reason: str) -> pytest.MarkDecorator:
    """A promise that agh does not keep yet; the test fails as soon as it does, so that the mark goes."""
    return pytest.mark.xfail(strict=True, reason=reason)


# What a terminal must never get from stored text. A carriage return is only part of a line's end.
UNSAFE = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff"
    "\U000e0000-\U000e007f]|\r(?!\r?\n)"
)
OWN_STYLES = re.compile("\x1b\\[(?:0|1|2|31|32|33|34|36)m")


def error_of(done: subprocess.CompletedProcess[str], code: str, exit: int) -> dict[str, Any]:
    """The one JSON object on stderr, checked for its shape; nothing is on stdout."""
    assert done.returncode == exit, (done.returncode, done.stdout, done.stderr)
    assert done.stdout == ""
    found = json.loads(done.stderr)
    assert list(found) == ["error"]
    error: dict[str, Any] = found["error"]
    assert list(error) == ["code", "message", "hint", "details"]
    assert error["code"] == code
    assert error["message"]
    assert error["hint"]
    return error


def said(done: subprocess.CompletedProcess[str]) -> str:
    """The message of an error for people: exactly `agh: …` and `hint: …`."""
    lines = done.stderr.splitlines()
    assert len(lines) == 2, done.stderr
    assert lines[0].startswith("agh: ")
    assert lines[1].startswith("hint: ")
    assert len(lines[1]) > len("hint: ")
    return lines[0].removeprefix("agh: ")


def tree(path: Path) -> dict[str, tuple[int, int, bytes]]:
    """Everything below `path`: mode, time of change and contents, by name."""
    found = {}
    for entry in [path, *path.rglob("*")]:
        about = entry.lstat()
        held = entry.read_bytes() if entry.is_file() and not entry.is_symlink() else b""
        found[str(entry.relative_to(path))] = (about.st_mode, about.st_mtime_ns, held)
    return found


def on_terminal(*args: object, env: Mapping[str, str] | None = None) -> tuple[int, str]:
    """Run the program with stdout and stderr on a pseudo-terminal; its exit number and what came out."""
    ours, theirs = pty.openpty()
    given = {**os.environ, "TERM": "xterm-256color", **(env or {})}
    with subprocess.Popen(
        [AGH, *map(str, args)], stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs, env=given
    ) as process:
        os.close(theirs)
        try:
            out = _until_end(ours)
        finally:
            os.close(ours)
            process.kill()
    return process.returncode, out.decode()


def _until_end(fd: int) -> bytes:
    out, deadline = b"", time.monotonic() + PATIENCE
    while True:
        assert select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0], "the program hangs"
        try:
            data = os.read(fd, 65536)
        except OSError:  # EIO: the last holder of the other side is gone
            return out
        if not data:
            return out
        out += data


def shell(script: str, *args: object, **kwargs: Any) -> subprocess.CompletedProcess[str]:
    """A bash script in which `$AGH` is the program and `$1`… are `args`."""
    env = {**(kwargs.pop("env", None) or os.environ), "AGH": AGH}
    return subprocess.run(
        ["bash", "-c", script, "bash", *map(str, args)],
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        **kwargs,
    )


class Follower:
    """A running program whose standard output is read as it comes."""

    def __init__(self, *args: object) -> None:
        self.process = subprocess.Popen(
            [AGH, *map(str, args)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self.pieces: list[bytes] = []
        self._rest = b""

    def line(self) -> str:
        """The next whole line."""
        assert self.process.stdout is not None
        fd, deadline = self.process.stdout.fileno(), time.monotonic() + PATIENCE
        while b"\n" not in self._rest:
            assert select.select([fd], [], [], max(0.0, deadline - time.monotonic()))[0], "no line came"
            data = os.read(fd, 1 << 20)
            assert data, ("the program ended", self._rest, self.errors())
            self.pieces.append(data)
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return line.decode()

    def event(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.line())
        return found

    def errors(self) -> str:
        assert self.process.stderr is not None
        return self.process.stderr.read().decode()

    def ended(self) -> int:
        """The exit number; nothing more was printed."""
        assert self.process.stdout is not None
        assert self._rest + self.process.stdout.read() == b""
        return self.process.wait(PATIENCE)

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *exc: object) -> None:
        self.process.kill()
        self.process.communicate()


def in_process(*args: str) -> subprocess.CompletedProcess[str]:
    """The same command line in this process: for tables of many cases, where starting Python is the cost."""
    out, errors = io.TextIOWrapper(io.BytesIO(), encoding="utf-8"), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors):
        code = run(args)
        out.flush()
    printed = out.buffer.getvalue().decode()  # type: ignore[attr-defined]
    return subprocess.CompletedProcess(args, code, printed, errors.getvalue())


def sequences(text: str) -> list[int]:
    return [json.loads(line)["sequence"] for line in text.splitlines()]
