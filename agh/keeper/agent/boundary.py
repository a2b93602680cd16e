"""The boundary of a session: which paths its agent may touch, with links resolved.

It runs around the workspace and the directories of `--add-dir`.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from agh import config
from agh.home import home_path, real_path


def is_inside(folders: Iterable[str], path: str) -> bool:
    """Tell whether a path lies in a folder, with links resolved; what is missing counts by its ancestor.

    What cannot be resolved lies outside. The home of agh is not part of a folder that happens to hold it:
    what is written there is obeyed.
    """
    real = real_path(path)
    return real is not None and any(_holds(folder, real) for folder in folders)


def is_open(folders: Iterable[str], path: str) -> bool:
    """Tell whether a mode may decide about a path: it is in a folder, but in no `.agh` of a folder."""
    folders = tuple(folders)
    settings = [os.path.join(os.path.realpath(folder), config.WORKSPACE_FOLDER) for folder in folders]
    real = real_path(path) or ""
    return is_inside(folders, path) and not any(_is_below(folder, real) for folder in settings)


def _holds(folder: str, real: str) -> bool:
    root, home = real_path(folder), os.path.realpath(home_path())
    return root is not None and _is_below(root, real) and (_is_below(home, root) or not _is_below(home, real))


def _is_below(folder: str, path: str) -> bool:
    return f"{path}/".startswith(folder.rstrip("/") + "/")
