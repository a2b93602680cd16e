"""The boundary of a workspace: which paths an agent may touch, with links resolved."""

from __future__ import annotations

import os

from agh import config
from agh.home import home_path, real_path


def is_inside(workspace: str, path: str) -> bool:
    """Tell whether a path lies in the workspace, with links resolved; what is missing counts by its ancestor.

    What cannot be resolved lies outside. The home of agh is not part of a workspace that happens to hold it:
    what is written there is obeyed.
    """
    root, real, home = real_path(workspace), real_path(path), os.path.realpath(home_path())
    if root is None or real is None:
        return False
    return _is_below(root, real) and (_is_below(home, root) or not _is_below(home, real))


def is_open(workspace: str, path: str) -> bool:
    """Tell whether a mode may decide about a path: it is in the workspace, but not in its `.agh`."""
    settings = os.path.join(os.path.realpath(workspace), config.WORKSPACE_FOLDER)
    return is_inside(workspace, path) and not _is_below(settings, real_path(path) or "")


def _is_below(folder: str, path: str) -> bool:
    return f"{path}/".startswith(folder.rstrip("/") + "/")
