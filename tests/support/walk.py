"""Record which modules of agh a run visits, in the order in which it first calls a function of each.

A module that is only imported is not visited, and neither is one whose functions run while another module
is being imported, nor the one whose tuples are used like those of Python. A command whose environment is that
of `environment` loads this file as its `sitecustomize`, and so does every keeper that it starts. Each process
writes the names of its modules, one line each, to a file of its own. Remove that file, and a process that is
still running starts a new one.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any

FOLDER = "AGH_TEST_WALK"  # the directory for the files, one for each process
TUPLES = "core.named_tuple"
IMPORT = ("_find_and_load", "<frozen importlib._bootstrap>")


def name_of(file: str) -> str | None:
    """Return the dotted name of a module of agh, without `agh.`; None for any other file."""
    package, _, path = file.rpartition("/agh/")
    if not path.endswith(".py") or not os.path.exists(f"{package}/agh/py.typed"):
        return None
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def trace(path: str) -> None:
    """Append each module's name to the file when one of its functions is first called."""
    names: dict[str, str | None] = {}
    visited: set[str] = set()
    importing = 0

    def watch(frame: FrameType, event: str, _: Any) -> None:
        nonlocal importing
        code = frame.f_code
        if (code.co_name, code.co_filename) == IMPORT:
            # Never below zero: the import of this file ends without having begun.
            importing = max(0, importing + {"call": 1, "return": -1}.get(event, 0))
        if event != "call" or importing or code.co_name == "<module>":
            return
        if code.co_filename not in names:
            names[code.co_filename] = name_of(code.co_filename)
        name = names[code.co_filename]
        if name in (None, TUPLES):
            return
        if not os.path.exists(path):
            visited.clear()
        if name not in visited:
            visited.add(name)
            with open(path, "a") as file:
                file.write(f"{name}\n")

    sys.setprofile(watch)
    os.register_at_fork(after_in_child=lambda: sys.setprofile(None))  # a leash is another program


def start(folder: str) -> None:
    """Trace this process if it is a command or a keeper."""
    if "agh.keeper.main" in sys.orig_argv:
        trace(f"{folder}/keeper-{os.getpid()}")
    elif os.path.basename(sys.orig_argv[1]) == "agh":
        trace(f"{folder}/command-{os.getpid()}")


def environment(folder: Path) -> dict[str, str]:
    """Return what a command's environment must have for its walk, and its keeper's, to go to the folder."""
    hook = folder / "hook"
    hook.mkdir(parents=True)
    (hook / "sitecustomize.py").symlink_to(Path(__file__).resolve())
    return {"PYTHONPATH": str(hook), FOLDER: str(folder)}


def modules(folder: Path, process: str) -> list[str]:
    """Return the modules that the command, or the keeper, has visited since its file was last removed."""
    return [name for file in folder.glob(f"{process}-*") for name in file.read_text().split()]


def forget(folder: Path) -> None:
    """Remove what is recorded, so that what comes next is on a page of its own."""
    for file in folder.glob("*-*"):
        file.unlink()


if __name__ == "sitecustomize" and FOLDER in os.environ:
    start(os.environ[FOLDER])
