"""Loaded by every Python below a test that puts this directory on PYTHONPATH; acts in keepers only.

While the file AGH_TEST_ARMED exists, every act that moves a prompt on is a boundary: a transaction
about to be committed or just committed, metadata about to be written, bytes about to go to the agent or just
gone, an answer on the control socket. At the n-th, n from AGH_TEST_KILL_AT, the keeper kills itself with
SIGKILL. Each boundary is a line in the file AGH_TEST_BOUNDARIES; the one where it died ends in KILLED.
"""

import os
import sys


def arm(at: int, log: str, armed: str) -> None:
    import signal
    from collections.abc import Callable, Iterator
    from contextlib import contextmanager
    from typing import Any

    from agh.keeper import server
    from agh.keeper.leash.child import Leashed
    from agh.store import meta
    from agh.store.writer import Writer

    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    count = 0

    def boundary(name: str) -> None:
        nonlocal count
        if not os.path.exists(armed):
            return
        count += 1
        os.write(file, f"{count} {name}{' KILLED' if count == at else ''}\n".encode())
        if count == at:
            os.kill(os.getpid(), signal.SIGKILL)

    transaction = Writer.transaction

    @contextmanager
    def watched(writer: Writer) -> Iterator[Any]:
        with transaction(writer) as connection:
            yield connection
            boundary("before the commit")
        boundary("after the commit")

    def around(act: Callable[..., Any], name: str, *, after: bool = False) -> Callable[..., Any]:
        def acting(*args: Any, **kwargs: Any) -> Any:
            boundary(f"before {name}")
            result = act(*args, **kwargs)
            if after:
                boundary(f"after {name}")
            return result

        return acting

    Writer.transaction = watched  # type: ignore[method-assign, assignment]
    meta.write = around(meta.write, "the metadata")
    Leashed.write = around(Leashed.write, "the agent's stdin", after=True)  # type: ignore[method-assign]
    server._Peer._answer = around(server._Peer._answer, "the answer")  # type: ignore[method-assign]


if "agh.keeper.main" in sys.orig_argv and os.environ.get("AGH_TEST_BOUNDARIES"):
    arm(int(os.environ["AGH_TEST_KILL_AT"]), os.environ["AGH_TEST_BOUNDARIES"], os.environ["AGH_TEST_ARMED"])
