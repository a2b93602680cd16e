"""Files in a prompt: `@path` becomes an attachment, and so does the path of an image that stands alone.

Tab offers the files of the workspace as git sees them: tracked, or new and not ignored.
"""

from __future__ import annotations

import os
import re
import time
from typing import Any

from agh.console.attachments import IMAGES, attachment
from agh.home import Session
from agh.store import meta

MOST_FILES = 50_000
FRESH = 5.0  # seconds for which a list of files counts
GIT_LIMIT = 5.0
_SKIPPED = {".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv"}
# A path may be quoted: @"my file.txt". An @ inside a word, as in an address, is none of ours.
REFERENCE = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|(\S+))')


def blocks_of(text: str, session: Session) -> list[dict[str, Any]]:
    """Return a prompt with the files that it names attached. Raise Usage if the agent cannot take one.

    An @word that is no file stays a word: agents have uses of their own for it.
    """
    metadata = meta.read(session)
    workspace = metadata["workspace_path"]
    paths = [path for word in references(text) if (path := _find_file(word, workspace))]
    paths += [path for line in text.splitlines() if (path := _image_on_line(line, workspace))]
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text.encode(errors="replace").decode()}]
    return blocks + [attachment(path, metadata) for path in dict.fromkeys(paths)]


def references(text: str) -> list[str]:
    """Return the paths that a text names with an @."""
    return [quoted or word.rstrip(".,;:!?)") for quoted, word in REFERENCE.findall(text)]


def _find_file(word: str, workspace: str) -> str | None:
    path = os.path.join(workspace, os.path.expanduser(word))
    return path if os.path.isfile(path) else None


def _image_on_line(line: str, workspace: str) -> str | None:
    """Return the image that a line consists of, as terminals paste what is dropped on them."""
    word = line.strip().strip("'\"").removeprefix("file://").replace("\\ ", " ")
    if os.path.splitext(word)[1].lower() not in IMAGES or word.startswith("@"):
        return None
    return _find_file(word, workspace)


class WorkspaceFiles:
    """The files of a workspace for Tab, read again when the list is older than a few seconds."""

    def __init__(self, workspace: str) -> None:
        self._workspace = workspace
        self._paths: list[str] = []
        self._read_at = -FRESH

    def matching(self, beginning: str, most: int = 100) -> list[str]:
        """Return paths that begin so; then those with a name that does, then those that contain it."""
        word = beginning.casefold()
        groups: tuple[list[str], list[str], list[str]] = ([], [], [])
        for path in self.paths():
            folded = path.casefold()
            if folded.startswith(word):
                groups[0].append(path)
            elif os.path.basename(folded).startswith(word):
                groups[1].append(path)
            elif word in folded:
                groups[2].append(path)
        return [path for group in groups for path in group][:most]

    def paths(self) -> list[str]:
        """Return the files, by their paths from the workspace."""
        if time.monotonic() - self._read_at >= FRESH:
            self._paths = list_files(self._workspace)
            self._read_at = time.monotonic()
        return self._paths


def list_files(workspace: str) -> list[str]:
    """List the files of a directory: those that git knows or would take, else all but the obvious clutter."""
    from agh.errors import GitFailed
    from agh.sessions.git import git

    try:
        listed = git(
            workspace, "ls-files", "-z", "--cached", "--others", "--exclude-standard", limit=GIT_LIMIT
        )
    except GitFailed:
        return _walk(workspace)
    return [path for path in dict.fromkeys(listed.split("\0")) if path][:MOST_FILES]


def _walk(workspace: str) -> list[str]:
    paths: list[str] = []
    for directory, names, files in os.walk(workspace):
        names[:] = sorted(name for name in names if name not in _SKIPPED)
        paths += [os.path.relpath(os.path.join(directory, name), workspace) for name in sorted(files)]
        if len(paths) >= MOST_FILES:
            break
    return paths[:MOST_FILES]
