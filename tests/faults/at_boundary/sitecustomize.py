"""Loaded by every Python below a test that puts this directory on PYTHONPATH; acts in keepers only.

Every act of a keeper that the world can see is a boundary: a COMMIT, each step of replacing meta.json, a
write to a pipe (the agent, the leash, the ready pipe), an answer on the control socket. At the n-th boundary,
n from AGH_TEST_KILL_AT (or `answer 2`: the second of its kind), the keeper is killed with SIGKILL before the
act is done. Each boundary is a line in the file AGH_TEST_BOUNDARIES; the one at which a keeper died is
marked, and keepers that come later are spared.
"""

import os
import sys


def arm(at: str, log: str) -> None:
    import signal
    import sqlite3
    from collections.abc import Callable
    from typing import Any

    from agh.keeper import server
    from agh.store import meta, writer

    with open(log, "a+") as earlier:
        earlier.seek(0)
        if "KILLED" in earlier.read():
            return
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    passed: list[str] = []
    real_write = os.write

    def boundary(name: str) -> None:
        passed.append(name)
        dies = at in (str(len(passed)), f"{name} {passed.count(name)}")
        real_write(file, f"{len(passed)} {name}{' KILLED' if dies else ''}\n".encode())
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)

    class Connection(sqlite3.Connection):
        def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
            if sql == "COMMIT":
                boundary("commit")
            return super().execute(sql, *args)

    def wrapped(act: Callable[..., Any], name: str) -> Callable[..., Any]:
        def acting(*args: Any, **kwargs: Any) -> Any:
            boundary(name)
            return act(*args, **kwargs)

        return acting

    connect = sqlite3.connect
    writer.sqlite3.connect = lambda *args, **kwargs: connect(*args, factory=Connection, **kwargs)  # type: ignore[assignment]
    meta.write = wrapped(meta.write, "meta")
    os.replace = wrapped(os.replace, "replace")  # type: ignore[assignment]
    os.write = wrapped(os.write, "write")
    server._Peer._send = wrapped(server._Peer._send, "answer")  # type: ignore[method-assign]


if "agh.keeper.main" in sys.orig_argv and os.environ.get("AGH_TEST_BOUNDARIES"):
    arm(os.environ["AGH_TEST_KILL_AT"], os.environ["AGH_TEST_BOUNDARIES"])
