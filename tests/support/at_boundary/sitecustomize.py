"""Kill a keeper with SIGKILL at its n-th boundary. Loaded by every Python with this folder on PYTHONPATH.

A boundary is the moment before or after an act that the world can see; `watch` has their names, and
AGH_TEST_ACTS says which of them count. AGH_TEST_KILL_AT is n, or `answer 2` for the second of a name, or
anything else for never. Each boundary is a line in the file AGH_TEST_BOUNDARIES; that of the death ends in
KILLED, and keepers that start later with the same file are spared.

The victim is every keeper of a session; with AGH_TEST_VICTIM=council the council's own keeper, or with the
name of a member, that member's. With AGH_TEST_ARMED, nothing counts unless a file of that name exists.
`tests.support.boundaries` sets all this.
"""

import json
import os
import sys

KEEPER, COUNCIL_KEEPER = "agh.keeper.main", "agh_council.keeper"


def is_victim(argv: list[str], name: str | None) -> bool:
    """Tell whether this process is the keeper to kill."""
    if COUNCIL_KEEPER in argv:
        return name == "council"
    if KEEPER not in argv:
        return False
    if name is None:
        return True
    with open(os.path.join(argv[argv.index(KEEPER) + 1], "meta.json")) as file:
        return str(json.load(file).get("name")).startswith(name + ".")


def watch(at: str, log: str, acts: list[str], armed: str | None) -> None:
    """Wrap every act of the list, so that it is counted and may be the last."""
    import signal
    import sqlite3
    import threading
    from collections.abc import Callable
    from typing import Any

    from agh.keeper import client, server
    from agh.keeper.leash.child import Leashed
    from agh.store import meta, writer

    with open(log, "a+") as earlier:
        earlier.seek(0)
        if "KILLED" in earlier.read():
            return
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    passed: list[str] = []
    real_write, counting = os.write, threading.Lock()

    def boundary(name: str) -> None:
        if name not in acts or (armed and not os.path.exists(armed)):
            return
        with counting:
            passed.append(name)
            is_last = at in (str(len(passed)), f"{name} {passed.count(name)}")
            real_write(file, f"{len(passed)} {name}{' KILLED' if is_last else ''}\n".encode())
            if is_last:
                os.kill(os.getpid(), signal.SIGKILL)

    class Connection(sqlite3.Connection):
        def execute(self, sql: str, *args: Any) -> sqlite3.Cursor:
            if sql != "COMMIT":
                return super().execute(sql, *args)
            boundary("commit")
            cursor = super().execute(sql, *args)
            boundary("committed")
            return cursor

    def wrap(holder: Any, attribute: str, before: str, after: str = "") -> None:
        act: Callable[..., Any] = getattr(holder, attribute)

        def acting(*args: Any, **kwargs: Any) -> Any:
            boundary(before)
            result = act(*args, **kwargs)
            boundary(after)
            return result

        if before in acts or after in acts:
            setattr(holder, attribute, acting)

    connect = sqlite3.connect
    writer.sqlite3.connect = lambda *args, **kwargs: connect(*args, factory=Connection, **kwargs)  # type: ignore[assignment]
    wrap(meta, "write", "meta")
    wrap(os, "replace", "replace")
    wrap(os, "write", "write")  # to a pipe: the agent, the leash, the ready pipe
    wrap(os, "posix_spawn", "spawn")
    wrap(Leashed, "write", "send", "sent")  # to the agent
    wrap(server._Peer, "_send", "answer")
    wrap(client, "call", "call")  # to another keeper


if os.environ.get("AGH_TEST_BOUNDARIES") and is_victim(sys.orig_argv, os.environ.get("AGH_TEST_VICTIM")):
    watch(
        os.environ["AGH_TEST_KILL_AT"],
        os.environ["AGH_TEST_BOUNDARIES"],
        os.environ["AGH_TEST_ACTS"].split(),
        os.environ.get("AGH_TEST_ARMED"),
    )
