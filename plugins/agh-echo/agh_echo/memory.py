"""Stored sessions: one append-only JSONL file each, in a private directory.

Promises: appended records survive a `kill -9` of the agent (not a power cut: there is no fsync); files are
0600; a path is built only from an id in the format made here. Each record starts with its newline, so a torn
record cannot spoil the next one; torn records are skipped.

Records: {session, cwd}, then {user, id}, {agent, id}, {thought, id}, {tool}, {plan}, {title} and
{usage: {tokens, cost}}.
"""

import json
import os
import time

from agh_echo.kinds import Frame


def default_home() -> str:
    state = os.environ.get("XDG_STATE_HOME") or os.path.expanduser("~/.local/state")
    return os.environ.get("AGH_ECHO_HOME") or os.path.join(state, "agh-echo")


def new_id() -> str:
    """Return a random UUID (version 4). The uuid module would be slow to import."""
    digits = os.urandom(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def utc(seconds: float) -> str:
    """Format a time in seconds since the epoch."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))


class Memory:
    """The stored sessions of one home."""

    def __init__(self, home: str) -> None:
        self.home = home

    def create(self, cwd: str, records: list[Frame]) -> str:
        """Store a new session and return its id."""
        os.makedirs(self.home, mode=0o700, exist_ok=True)
        session_id = new_id()
        self.append(session_id, [{"session": session_id, "cwd": cwd}, *records])
        return session_id

    def append(self, session_id: str, records: list[Frame]) -> None:
        lines = "".join(f"\n{json.dumps(record)}" for record in records)
        with open(
            self._path(session_id), "ab", opener=lambda path, flags: os.open(path, flags, 0o600)
        ) as file:
            file.write(lines.encode())

    def has(self, session_id: str) -> bool:
        is_valid = len(session_id) == 36 and set(session_id) <= set("0123456789abcdef-")
        return is_valid and os.path.exists(self._path(session_id))

    def read(self, session_id: str) -> list[Frame]:
        with open(self._path(session_id), "rb") as file:
            return [record for line in file if (record := _parse(line))]

    def delete(self, session_id: str) -> None:
        os.unlink(self._path(session_id))

    def list(self) -> list[Frame]:
        """Return a SessionInfo per stored session, newest activity first."""
        names = os.listdir(self.home) if os.path.isdir(self.home) else []
        infos = []
        for name in names:
            if self.has(name.removesuffix(".jsonl")):
                try:
                    infos.append(self._info(name[:36]))
                except FileNotFoundError:
                    pass  # another agent deleted it meanwhile
        return sorted(infos, key=lambda info: str(info["updatedAt"]), reverse=True)

    def _info(self, session_id: str) -> Frame:
        records = self.read(session_id) or [{}]
        prompts = [record["user"][:60] for record in records if "user" in record]
        titles = [record["title"] for record in records if "title" in record]
        title = [{"title": title} for title in titles[-1:] + prompts[:1]]
        return {
            "sessionId": session_id,
            "cwd": records[0].get("cwd", "/"),
            **(title[0] if title else {}),  # not null, which not every client takes
            "updatedAt": utc(os.stat(self._path(session_id)).st_mtime),
        }

    def _path(self, session_id: str) -> str:
        return os.path.join(self.home, f"{session_id}.jsonl")


def _parse(line: bytes) -> Frame:
    """Return the record in a line; an empty one if the line is torn."""
    try:
        record = json.loads(line)
    except ValueError:
        return {}
    return record if isinstance(record, dict) else {}
