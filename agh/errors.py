"""Every failure agh can report.

A class is a kind of failure: its docstring is the message, `{0}` and `{1}` filled from its
arguments; its name, in snake case, is the stable code that scripts match; `exit` is the process's
exit number; `hint` names the next command to run. Only the funnel in `agh.cli.main` prints one.

Exit numbers: 1 agent or turn failed, 2 usage, 3 timeout, 4 no such thing, 5 permission, 6 busy,
7 died but resumable, 8 stored data damaged, 9 agent not usable, 70 a bug, 130 interrupted, 141 pipe.
"""

from __future__ import annotations

from typing import Any, ClassVar

INTERRUPTED = 130
BROKEN_PIPE = 141


class AghError(Exception):
    """{0}"""

    exit: ClassVar[int] = 1
    hint: str = ""

    def __init__(self, *args: object, hint: str | None = None, **details: Any) -> None:
        super().__init__(*args)
        self.hint = (self.hint if hint is None else hint).format(*args)
        self.details = details

    @property
    def code(self) -> str:
        name = type(self).__name__
        return "".join("_" + c.lower() if c.isupper() else c for c in name).lstrip("_")

    @property
    def message(self) -> str:
        return (type(self).__doc__ or "{0}").format(*self.args)

    def __str__(self) -> str:
        return self.message

    def as_dict(self) -> dict[str, Any]:
        return {"code": self.code, "message": self.message, "hint": self.hint, "details": self.details}


class Usage(AghError):
    """{0}"""

    exit = 2
    hint = "agh --help"


class AmbiguousSession(AghError):
    """{0} matches more than one session: {1}"""

    exit = 2
    hint = "agh session list --all"


class HomeUnsafe(AghError):
    """{0} is not private: {1}"""

    exit = 5
    hint = "chmod 700 {0}"


class HomeUnknown(AghError):
    """no home directory: neither AGH_HOME nor HOME is set, and the user has no entry in the password file"""

    exit = 2
    hint = "export AGH_HOME=/path/to/a/private/directory"


class SessionNotFound(AghError):
    """no session matches {0}"""

    exit = 4
    hint = "agh session list --all"


class SessionBusy(AghError):
    """session {0} is in use by another command"""

    exit = 6
    hint = "agh session status {0}"


class SessionLive(AghError):
    """session {0} is live"""

    exit = 6
    hint = "agh session stop {0}"


class DataDamaged(AghError):
    """stored data is damaged: {0}"""

    exit = 8
    hint = "agh doctor"


class MetaInvalid(DataDamaged):
    """session {0}: meta.json cannot be read: {1}"""


class EventsMissing(DataDamaged):
    """session {0}: events.db is missing"""


class EventsEmpty(DataDamaged):
    """session {0}: events.db is empty"""


class EventsNotAFile(DataDamaged):
    """session {0}: events.db is not a regular file"""


class EventsNotADatabase(DataDamaged):
    """session {0}: events.db is not an agh event log"""


class EventsDamaged(DataDamaged):
    """session {0}: events.db is damaged: {1}"""

    hint = "restore events.db from a backup, or read what is left with: sqlite3 events.db .recover"


class EventsUnreadable(DataDamaged):
    """session {0}: events.db cannot be opened: {1}"""


class EventsNewer(DataDamaged):
    """session {0}: events.db has format {1}; this agh knows formats up to {2}"""

    hint = "pip install --upgrade agh"


class StoreFailed(DataDamaged):
    """session {0}: the event log cannot be written: {1}"""

    hint = "df -h ~/.agh"


class Bug(AghError):
    """a bug in agh: {0}"""

    exit = 70
    hint = "run again with AGH_DEBUG=1 to see the traceback"
