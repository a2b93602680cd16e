"""Every failure agh can report.

A class is a kind of failure: its docstring is the message, `{0}` and `{1}` filled from its
arguments; its name, in snake case, is the stable code that scripts match; `exit` is the process's
exit number; `hint` names the next command to run. Only the funnel in `agh.cli.main` prints one.

Exit numbers: 1 agent or turn failed, nothing found, or nothing waits, 2 usage, 3 timeout, 4 no such thing,
5 permission, 6 busy, 7 died but resumable, 8 stored data damaged, 9 agent not usable, 10 a usage limit,
70 a bug, 130 interrupted, 141 pipe.
"""

from __future__ import annotations

TYPE_CHECKING = False  # what type checkers read as true, without the cost of importing typing
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

INTERRUPTED = 130
BROKEN_PIPE = 141


class AghError(Exception):
    """{0}"""

    exit: int = 1
    hint: str = ""

    def __init__(self, *args: object, hint: str | None = None, **details: Any) -> None:
        super().__init__(*args)
        self.hint = self.hint.format(*args) if hint is None else hint
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

    def redact(self, hide: Callable[[Any], Any]) -> None:
        """Hide the secrets in the message, the hint and the details. `hide` takes JSON values."""
        self.args, self.hint, self.details = tuple(map(hide, self.args)), hide(self.hint), hide(self.details)

    def for_relay(self) -> dict[str, Any]:
        """Return what `Relayed` needs to raise this error in another process."""
        return {**self.as_dict(), "exit": self.exit}


class Usage(AghError):
    """{0}"""

    exit = 2
    hint = "agh --help"


class AmbiguousSession(AghError):
    """{0} matches more than one session: {1}"""

    exit = 2
    hint = "agh session list --all"


class OutputFailed(AghError):
    """cannot write the output: {0}"""

    exit = 1
    hint = "df -h ."


class HomeUnsafe(AghError):
    """{0} is not private: {1}"""

    exit = 5
    hint = "chmod 700 {0}"


class HomeReadOnly(AghError):
    """cannot write to {0}: {1}"""

    exit = 5
    hint = "make it writable, or use another home: export AGH_HOME=/another/directory"


class DiskFull(AghError):
    """cannot write to {0}: {1}"""

    exit = 1
    hint = "df -h {0}"


class NoDescriptors(AghError):
    """too many files are open"""

    exit = 1
    hint = "raise the limit: ulimit -n 4096"


class SystemFailed(AghError):
    """{0}"""

    exit = 1
    hint = "agh doctor"


class HomeUnknown(AghError):
    """no home directory: neither AGH_HOME nor HOME is set, and the user has no entry in the password file"""

    exit = 2
    hint = "export AGH_HOME=/path/to/a/private/directory"


class ConfigInvalid(AghError):
    """{0}: {1}"""

    exit = 2
    hint = "correct the file"


class EnvFileUnsafe(AghError):
    """{0} may contain secrets but is not private: {1}"""

    exit = 5
    hint = "chmod 600 {0}"


class SessionNotFound(AghError):
    """no session matches {0}"""

    exit = 4
    hint = "agh session list --all"


class AnswerMissing(AghError):
    """session {0} has no {1}"""

    exit = 4
    hint = "agh session transcript {0}"


class ClipboardMissing(AghError):
    """no clipboard: pbcopy, wl-copy, xclip and xsel are missing or failed, and stdout is not a terminal"""

    exit = 4
    hint = "agh session last > answer"


class NothingToContinue(AghError):
    """there is no session here to continue"""

    exit = 4
    hint = "agh run TEXT"


class NameTaken(AghError):
    """the name {0} is already taken in this workspace, by session {1}"""

    exit = 6
    hint = "agh session status {0}"


class NamesBusy(AghError):
    """timed out after {0} s: other commands are still changing names or settings"""

    exit = 6
    hint = "try again when they have finished; a command that was paused (Ctrl-Z) blocks the others"


class SessionBusy(AghError):
    """session {0} is in use by another command"""

    exit = 6
    hint = "agh session status {0}"


class HomeBusy(AghError):
    """another command is changing {0}"""

    exit = 6
    hint = "try again in a moment"


class SessionArchived(AghError):
    """session {0} is archived"""

    exit = 6
    hint = "agh session archive {0} --undo"


class SessionStarting(AghError):
    """session {0} is still starting"""

    exit = 6
    hint = "agh session status {0}"


class SessionMirrored(AghError):
    """session {0} is kept on another machine, and there is no connection to it"""

    exit = 6
    hint = "connect to it with agh session resume {0}, then try again"


class SessionStopping(AghError):
    """session {0} is stopping"""

    exit = 6
    hint = "agh session wait {0} --until stopped"


class SessionLive(AghError):
    """session {0} is live and must be stopped first"""

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

    hint = "restore events.db from a backup, or delete the session: agh session delete {0}"


class EventsEmpty(DataDamaged):
    """session {0}: events.db is empty"""

    hint = "restore events.db from a backup, or delete the session: agh session delete {0}"


class EventsNotAFile(DataDamaged):
    """session {0}: events.db is not a regular file"""

    hint = "restore events.db from a backup, or delete the session: agh session delete {0}"


class EventsNotADatabase(DataDamaged):
    """session {0}: events.db is not an agh event log"""

    hint = "restore events.db from a backup, or delete the session: agh session delete {0}"


class EventsDamaged(DataDamaged):
    """session {0}: events.db is damaged: {1}"""

    hint = "restore events.db from a backup, or read what is left with: sqlite3 events.db .recover"


class EventsUnreadable(DataDamaged):
    """session {0}: events.db cannot be opened: {1}"""


class EventsLost(DataDamaged):
    """session {0}: events.db ends at event {1}, but there were {2} events"""

    hint = "restore events.db from a backup"


class EventsNewer(DataDamaged):
    """session {0}: events.db has format {1}; this version of agh reads formats up to {2}"""

    hint = "upgrade agh-cli: pip install --upgrade, pipx upgrade or uv tool upgrade"


class StoreFailed(DataDamaged):
    """session {0}: cannot write the event log: {1}"""

    hint = "df -h ~/.agh"


class FileTaken(AghError):
    """{0} already exists"""

    exit = 2
    hint = "name another file, or replace it with --force"


class FormatUnknown(AghError):
    """unknown format {0!r}; available formats: {1}"""

    exit = 2
    hint = "agh plugins list"


class ImportInvalid(AghError):
    """cannot import {0}: {1}"""

    exit = 2
    hint = "nothing was imported; if agh wrote the file, export it again: agh session export ID"


class NothingToImport(AghError):
    """found no {0} files{1}"""

    exit = 4
    hint = "agh session import --from {0} PATH"


class ListNotOffered(AghError):
    """agent {0} cannot list its sessions over ACP"""

    exit = 2
    hint = "name a session by the agent's own id: agh session import --from-agent {0} ID"


class LoadNotOffered(AghError):
    """agent {0} cannot replay its sessions over ACP (no session/load)"""

    exit = 2
    hint = "see what it offers: agh agent doctor {0}"


class AgentSessionUnknown(AghError):
    """agent {0} has no session {1}"""

    exit = 4
    hint = "agh session import --from-agent {0} --list --all"


class SessionExists(AghError):
    """session {0} already exists, and its log differs from the one in the file"""

    exit = 6
    hint = "to import the file as another session, add --new-id"


class IndexFailed(AghError):
    """cannot use the search index: {0}"""

    exit = 1
    hint = "agh session search --rebuild WORDS, or set XDG_CACHE_HOME to another directory"


class DatabaseMissing(AghError):
    """there is no database {0}"""

    exit = 4
    hint = "agh db build {0}"


class DatabaseForeign(AghError):
    """{0} is not a database that agh built"""

    exit = 2
    hint = "name another file; this one was not changed"


class DatabaseVersion(AghError):
    """the database {0} has format {1}; this version of agh needs format {2}"""

    exit = 8
    hint = "delete it and build it again: agh db build {0}"


class DatabaseDamaged(DataDamaged):
    """the database {0} is damaged: {1}"""

    hint = "delete it and build it again: agh db build {0}"


class DatabaseBusy(AghError):
    """another command is building the database {0}"""

    exit = 6
    hint = "try again when it has finished"


class DatabaseRedacted(AghError):
    """the database {0} was built without --redact and cannot be updated with it"""

    exit = 2
    hint = "name a new file"


class ShellMissing(AghError):
    """the program sqlite3 is not installed"""

    exit = 4
    hint = "install the package sqlite3 (on a Mac: sqlite), or use agh db query"


class NothingFound(AghError):
    """no matches{0}"""

    exit = 1
    hint = "agh search --all-workspaces WORDS"


class CheckpointDamaged(DataDamaged):
    """session {0}: checkpoint.json is damaged: {1}"""

    hint = "agh session checkpoint {0} --rebuild"


class CheckpointMissing(AghError):
    """session {0} has no checkpoint: it was never paused"""

    exit = 4
    hint = "agh session pause {0}"


class KindUnknown(AghError):
    """no installed plugin handles sessions of kind {0}"""

    exit = 9
    hint = "agh plugins list"


class ExtraMissing(AghError):
    """{0} needs packages that are not installed: {1}"""

    exit = 9
    hint = "pip install 'agh-cli[all]'"


class EnvironmentManaged(AghError):
    """agh runs in {0}, which the system's package manager manages; nothing was installed"""

    exit = 9
    hint = "install agh with pipx or uv (pipx install agh-cli), then install the plugin with that agh"


class InstallerMissing(AghError):
    """cannot install into {0}: {1} is missing"""

    exit = 9
    hint = "put {1} on PATH"


class PluginNotInstalled(AghError):
    """{0} was not installed: {1}"""

    exit = 9
    hint = "agh man 7 plugins"


class PageNotFound(AghError):
    """there is no manual page {0}"""

    exit = 4
    hint = "agh man"


class Bug(AghError):
    """a bug in agh: {0}"""

    exit = 70
    hint = "run again with AGH_DEBUG=1 to see the traceback"


class ControlVersion(AghError):
    """the session runs another version of agh (its protocol version is {1}, not {0})"""

    exit = 6
    hint = "restart the session: agh session stop ID, then agh session resume ID"


class KeeperGone(AghError):
    """session {0} is not live"""

    exit = 7
    hint = "agh session resume {0}"


class KeeperFailed(AghError):
    """session {0}: its keeper process died while starting: {1}"""

    exit = 7
    hint = "agh session resume {0}"


class StartStopped(AghError):
    """session {0} was stopped while it was starting"""

    exit = 7
    hint = "agh session resume {0}"


class KeeperDied(AghError):
    """session {0}: its keeper process died"""

    exit = 7
    hint = "agh session resume {0}"


class KeeperNotResponding(AghError):
    """session {0}: its keeper process does not respond"""

    exit = 3
    hint = "agh session stop {0} --kill"


class PromptDropped(AghError):
    """session {0}: the prompt was dropped from the queue before it was sent"""

    exit = 6
    hint = "agh session queue list {0} --all"


class TurnInterrupted(AghError):
    """session {0}: the turn was interrupted: {1}"""

    exit = 7
    hint = "agh session resume {0}"


class TurnTimedOut(AghError):
    """session {0}: the turn was cancelled: {1}"""

    exit = 3
    hint = "agh session recap {0}"


class TimedOut(AghError):
    """timed out after {1:g} s waiting for {0}"""

    exit = 3
    hint = "agh session list"


class QueryStopped(AghError):
    """the query took too long, or was stopped"""

    exit = 3
    hint = "simplify --where, or read fewer events with --last"


class SessionNotAttachable(AghError):
    """{0} {1}"""

    exit = 6
    hint = "agh session recap {0}"


class QueueFull(AghError):
    """session {0}: the queue is full ({1} prompts)"""

    exit = 6
    hint = "agh session wait {0} --until idle"


class KeyConflict(AghError):
    """session {0}: the idempotency key {1!r} was already used for another prompt"""

    exit = 6
    hint = "use a new key, or see the earlier prompt: agh session queue list {0} --all"


class InputTooLarge(AghError):
    """the prompt is too large: {0} bytes; the maximum is {1}"""

    exit = 2
    hint = "write the text to a file in the workspace and name that file in the prompt"


class SessionLimited(AghError):
    """session {0} has reached a usage limit; its prompt stays in the queue until {1}"""

    exit = 10
    hint = "agh session wait {0}"


class DueFailed(AghError):
    """{0} of {1} sessions could not be started"""

    exit = 1
    hint = "agh session due"


class InputStillOpen(AghError):
    """standard input is a pipe that is still open after {0:g} s"""

    exit = 3
    hint = "--no-stdin ignores it, < /dev/null closes it"


class LimitReached(AghError):
    """session {0} has reached its limit: {1}"""

    exit = 6
    hint = "agh session resume {0} {2} N"


class HookStopped(AghError):
    """{0}"""

    exit = 1
    hint = "agh config path"


class InputUnknown(AghError):
    """no queued prompt has number {0}"""

    exit = 4
    hint = "agh session queue list {1}"


class NoTurn(AghError):
    """session {0} has no turn to cancel"""

    exit = 6
    hint = "agh session status {0}"


class AgentNotFound(AghError):
    """{0}"""

    exit = 4
    hint = "agh agent list; agh agent search {1}"


class WorkspaceUnreadable(AghError):
    """{0} cannot be read: {1}"""

    exit = 2
    hint = "fix it or move it out of the way, then try again"


class TrustRefused(AghError):
    """{0} cannot be trusted: {1}"""

    exit = 2
    hint = "agh workspace show {0}"


class WorkspaceUntrusted(AghError):
    """the agent {0} is defined in {1}, but that workspace is not trusted"""

    exit = 4
    hint = "agh agent list"


class AgentInvalid(AghError):
    """{0}: {1}"""

    exit = 2
    hint = "correct the file, or delete it"


class OptionUnknown(AghError):
    """the agent does not offer {0} {1!r}; it offers: {2}"""

    exit = 2
    hint = "choose one of those"


class SkillChanged(AghError):
    """{0} was changed by hand"""

    exit = 6
    hint = "agh skill install --force overwrites it"


class SystemPromptRefused(AghError):
    """agent {0} does not accept a system prompt{1}"""

    exit = 2
    hint = "put it in the prompt, or in the agent's instructions file (AGENTS.md)"


class WorkspaceNotFound(AghError):
    """there is no {0} {1}"""

    exit = 4
    hint = "name an existing directory, or a workspace listed by: agh workspace list"


class WorkspaceNameTaken(AghError):
    """the name {0} already belongs to the workspace {1}"""

    exit = 6
    hint = "choose another name with --name"


class NameMismatch(AghError):
    """the name {0} belongs to session {1}, which {2}"""

    exit = 6
    hint = "agh session status {0}"


class WorkspaceGone(AghError):
    """{0} does not exist"""

    exit = 4
    hint = "restore the directory, or start a new session: agh session new"


class WorkspaceUnresolved(AghError):
    """session {0}: cannot use its workspace {1}: {2}"""

    exit = 4
    hint = "restore the directory {1}, or start a new session: agh session new"


class GitFailed(AghError):
    """git {0}: {1}"""

    exit = 1
    hint = "git worktree list"


class NotARepository(AghError):
    """{0} is not in a git repository"""

    exit = 2
    hint = "git init, or leave out --worktree"


class BranchTaken(AghError):
    """branch {0} is checked out in {1}"""

    exit = 6
    hint = "name another branch"


class RepositoryBusy(AghError):
    """another command is changing the worktrees of {0}"""

    exit = 6
    hint = "try again in a moment"


class WorktreeGone(AghError):
    """session {0}: cannot recreate its worktree {1}: {2}"""

    exit = 4
    hint = "git worktree list"


class WorktreeUnclear(AghError):
    """session {0}: cannot find out whether its worktree {1} exists: {2}"""

    exit = 1
    hint = "git -C {1} status"


class PlaceUnknown(AghError):
    """no place is called {0}"""

    exit = 4
    hint = "use ssh:HOST, docker:CONTAINER, …, or add [places.{0}] to config.toml"


class PlaceInvalid(AghError):
    """{0}: {1}"""

    exit = 2
    hint = "agh man places"


class PlaceGone(AghError):
    """no connection to {0}: {1}"""

    exit = 7
    hint = "agh agent doctor --on {0}"


class FarCommandMissing(AghError):
    """{0} has no agh: it is not on PATH there"""

    exit = 9
    hint = 'install agh there, or say where it is: env = ["PATH=..."] in [places.NAME]'


class FarCommandFailed(AghError):
    """{0}: {1}"""

    exit = 1
    hint = "on that machine, run: agh doctor"


class AgentNotInstalled(AghError):
    """agent {0} cannot be started: {1}"""

    exit = 9
    hint = "agh agent list"


class AgentNotInstallable(AghError):
    """cannot install {0} here: {1}"""

    exit = 9
    hint = "agh agent search {0} -o json"


class InstallFailed(AghError):
    """installing {0} failed: {1}"""

    exit = 1
    hint = "try again, or see what the registry offers: agh agent search {0}"


class ChecksumWrong(AghError):
    """the download of {0} has the wrong checksum: its SHA-256 is {1}, not {2}"""

    exit = 1
    hint = "nothing was installed; refresh the registry: agh agent search --refresh"


class ArchiveRefused(AghError):
    """cannot use the archive {0}: {1}"""

    exit = 1
    hint = "nothing was installed; refresh the registry: agh agent search --refresh"


class DownloadFailed(AghError):
    """downloading {0} failed: {1}"""

    exit = 1
    hint = "check the network and try again; agh agent search works offline"


class CatalogInvalid(AghError):
    """cannot use the registry of agents: {0}"""

    exit = 1
    hint = "use the copy that comes with agh: agh agent search"


class AgentUnlisted(AghError):
    """the registry has no agent {0}"""

    exit = 4
    hint = "agh agent search"


class AgentDefined(AghError):
    """agent {0} is defined in {1}, which agh did not write and does not overwrite"""

    exit = 6
    hint = "rename that file, then try again"


class AgentNotPinned(AghError):
    """{0} was not installed with agh agent install"""

    exit = 4
    hint = "agh agent list"


class AgentNeedsLogin(AghError):
    """agent {0} needs a login: {1}"""

    exit = 9
    hint = "agh agent login {0}"


class LoginMethodUnknown(AghError):
    """agent {0} has no login method {1}; it offers: {2}"""

    exit = 2
    hint = "agh agent doctor {0}"


class LoginNotOffered(AghError):
    """agent {0} offers no way to log in"""

    exit = 9
    hint = "agh agent doctor {0}"


class LoginFailed(AghError):
    """the login to agent {0} failed: {1}"""

    exit = 9
    hint = "agh agent login {0}"


class LogoutNotOffered(AghError):
    """agent {0} offers no way to log out"""

    exit = 9
    hint = "log out with the agent's own command"


class AgentFailed(AghError):
    """agent {0} failed: {1}"""

    exit = 1
    hint = "agh agent doctor {0}"


class AgentDied(AghError):
    """agent {0} {1}"""

    exit = 7
    hint = "agh agent doctor {0}"


class RestoreFailed(AghError):
    """session {0}: the agent could not restore its conversation: {1}"""

    exit = 1
    hint = "try again, or give up the old conversation: agh session resume {0} --fresh"


class ContextLost(AghError):
    """session {0}: the agent's own memory of the conversation is gone"""

    exit = 1
    hint = "resume without it: agh session resume {0}"


class TurnFailed(AghError):
    """{0}"""

    exit = 1
    hint = ""


class InboxEntryUnknown(AghError):
    """the inbox has no open entry {0}; it may have been answered already"""

    exit = 4
    hint = "agh inbox"


class InboxAmbiguous(AghError):
    """{0} matches more than one entry of the inbox: {1}"""

    exit = 2
    hint = "agh inbox"


class NotifyFailed(AghError):
    """these notifiers failed: {0}"""

    exit = 1
    hint = "agh config show notify"


class PermissionUnknown(AghError):
    """there is no open permission request {0}"""

    exit = 4
    hint = "agh session permissions {1}"


class PermissionAmbiguous(AghError):
    """{0} permission requests are open; name the one you mean"""

    exit = 2
    hint = "agh session permissions {1}"


class PermissionChanged(AghError):
    """request {0} has changed since it was shown; nothing was decided"""

    exit = 4
    hint = "agh session permissions {1}"


class PermissionNotOffered(AghError):
    """the agent does not offer {1} for {0}; it offers {2}"""

    exit = 2
    hint = "agh session permissions {3}"


class PermissionSelfAnswered(AghError):
    """an agent cannot answer its own requests; this attempt was recorded"""

    exit = 5
    hint = "to allow this, start the session with --allow-self-answers"


class PermissionRefused(AghError):
    """{0} was refused ({1}); the turn ended without it"""

    exit = 5
    hint = "agh session permissions {2} --all"


class QuestionUnknown(AghError):
    """there is no open question {0}"""

    exit = 4
    hint = "agh session questions {1}"


class QuestionAmbiguous(AghError):
    """{0} questions are open; name the one you mean"""

    exit = 2
    hint = "agh session questions {1}"


class AnswerInvalid(AghError):
    """the answer does not fit the question: {0}"""

    exit = 2
    hint = "agh session questions {1}"


class Relayed(AghError):
    """{0}"""  # an error that another process reported

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(str(error.get("message")), hint=str(error.get("hint") or ""))
        self.details = error.get("details") or {}
        self.exit = int(error.get("exit") or 1)
        self._code = str(error.get("code"))

    @property
    def code(self) -> str:
        return self._code
