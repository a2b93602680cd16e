"""Surroundings with little: no inotify left, few descriptors. Only the program under test meets the limit."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Callable

import pytest

SCRIPT = 'echo "$1" > /proc/sys/user/max_inotify_$0 && shift && exec "$@"'


def inotify_limit(what: str, count: int = 0) -> list[str]:
    """Return the beginning of a command line that leaves a program few inotify `instances` or `watches`.

    The limit is that of a user namespace, so that nobody else on this machine meets it.
    """
    prefix = ["unshare", "--user", "--map-root-user", "sh", "-c", SCRIPT, what, str(count)]
    try:
        subprocess.run([*prefix, "true"], check=True, capture_output=True, timeout=30)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no user namespaces here")
    return prefix


def few_descriptors(count: int) -> Callable[[], None]:
    """Return what makes a child process have so many descriptors at most."""
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (count, count))
