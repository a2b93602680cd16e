"""Loaded by every Python below a test that puts this directory on PYTHONPATH; acts in one keeper only.

The victim is the council's keeper (AGH_TEST_VICTIM=council) or the keeper of the member of that name. Every
act of it that the world can see is a boundary: a COMMIT, the replacing of a file, the start of a process, a
call to another keeper, a write to a pipe, an answer on its socket. At the n-th boundary, n from
AGH_TEST_KILL_AT, it is killed with SIGKILL before the act is done. Each boundary is a line in the file
AGH_TEST_BOUNDARIES; the one at which a keeper died is marked, and keepers that come later are spared.
"""

import json
import os
import sys


def is_victim(name: str, argv: list[str]) -> bool:
    if "agh_council.keeper" in argv:
        return name == "council"
    if "agh.keeper.main" not in argv:
        return False
    directory = argv[argv.index("agh.keeper.main") + 1]
    with open(os.path.join(directory, "meta.json")) as file:
        return str(json.load(file).get("name")).startswith(name + ".")


def arm(at: str, log: str, in_council: bool) -> None:
    import signal
    import sqlite3
    import threading
    from collections.abc import Callable
    from typing import Any

    from agh.keeper import client, server
    from agh.store import writer

    with open(log, "a+") as earlier:
        earlier.seek(0)
        if "KILLED" in earlier.read():
            return
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    passed: list[str] = []
    real_write, one_at_a_time = os.write, threading.Lock()

    def boundary(name: str) -> None:
        with one_at_a_time:
            passed.append(name)
            dies = at == str(len(passed))
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
    os.replace = wrapped(os.replace, "replace")  # type: ignore[assignment]
    os.posix_spawn = wrapped(os.posix_spawn, "spawn")
    server._Peer._send = wrapped(server._Peer._send, "answer")  # type: ignore[method-assign]
    if in_council:
        client.call = wrapped(client.call, "call")
    else:
        os.write = wrapped(os.write, "write")


if os.environ.get("AGH_TEST_BOUNDARIES") and is_victim(os.environ["AGH_TEST_VICTIM"], sys.orig_argv):
    in_council = os.environ["AGH_TEST_VICTIM"] == "council"
    arm(os.environ["AGH_TEST_KILL_AT"], os.environ["AGH_TEST_BOUNDARIES"], in_council)
