"""The ACP connection to an agent: JSON-RPC over its stdin and stdout.

Promises: writing never blocks the keeper; every request of ours ends in an answer, a timeout that the
agent hears of, or the agent's death; what the agent sends is passed on in batches, in order, before
anything acts on it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import orjson

from agh.adapters.launch import Launch
from agh.adapters.redactions import redactor_for
from agh.core.acp.frames import (
    HEAD,
    INTERNAL_ERROR,
    Frame,
    Malformed,
    Response,
    Splitter,
    encode_answer,
    encode_error,
    encode_notification,
    encode_request,
    encode_result,
    redacted_error,
)
from agh.core.acp.reasons import (
    MAX_LINES,
    NO_REASON,
    cause_in,
    error_text,
    last_lines,
    says_no_package,
    says_old_node,
)
from agh.core.redaction.redact import LONGEST, Redactor
from agh.errors import AgentDied, AgentNotInstalled, AghError, TimedOut
from agh.keeper.agent.advice import doctor_hint, hint_for, package_hint, slow_hint, start_failure
from agh.keeper.leash.child import Leashed
from agh.keeper.loop import Loop

STDERR_TAIL = 64 << 10
PARSE_ERROR = -32700
STDOUT_GRACE = 0.3  # an agent that closes its stdout usually exits by itself

Then = Callable[[Response | AghError], None]


class RpcError(AghError):
    """{1} (code {0})"""  # the error must be redacted

    def __init__(self, error: Mapping[str, Any], text: str | None = None) -> None:
        super().__init__(error.get("code"), text or error_text(error))
        self.error = error
        if error.get("data") is not None:
            self.details["data"] = error["data"]


class Agent:
    """A running agent. `on_frames` gets each batch of frames; `on_end` is called once, at the end.

    Without `on_frames` nothing reads what the agent sends, so no request of ours is answered.
    """

    def __init__(
        self,
        loop: Loop,
        launch: Launch,
        on_frames: Callable[[Agent, list[Frame]], None] | None = None,
        on_end: Callable[[Agent], None] | None = None,
        is_waiting: Callable[[], bool] = lambda: False,
        on_stderr: Callable[[bytes], None] | None = None,
    ) -> None:
        self.name, self.argv, self.cwd = launch.agent.name, launch.argv, launch.workspace
        self._loop, self._on_frames, self._on_end = loop, on_frames, on_end
        self._on_stderr = on_stderr
        self._is_waiting = is_waiting  # for the user, so that a late answer is not the agent's fault
        self._stderr = bytearray()
        self._stray: list[str] = []  # the last lines on stdout that were not messages
        self._has_spoken = False
        self._splitter = Splitter()
        self._waiting: dict[int, Then] = {}
        self._cancelled: set[int] = set()  # requests that took too long: their late answers mean nothing
        self._last_number = 0
        self._closed_stdout = False
        self._launch = launch
        self.process = Leashed(
            loop, launch.argv, launch.environ, launch.workspace, self._take_output, self._ended
        )
        if launch.preamble:
            self.process.write(launch.preamble)
        if launch.heartbeat:
            loop.later(launch.heartbeat, self._beat)

    def request(self, method: str, params: dict[str, Any], then: Then, limit: float | None = None) -> None:
        """Send a request; `then` gets the response, or the reason why there is none."""
        if self.process.over:
            then(self.death())
            return
        self._last_number += 1
        number = self._last_number
        self._waiting[number] = then
        if limit is not None:
            self._loop.later(limit, lambda: self._expire(number, method, limit))
        self.process.write(encode_request(number, method, params))

    def parse_with(self, parse_lines: Callable[[list[bytes]], list[Frame]]) -> None:
        """Parse what the agent sends from now on with this function."""
        self._splitter.parse_lines = parse_lines

    def call(self, method: str, params: dict[str, Any], limit: float) -> Any:
        """Send a request and serve everything else until it is answered."""
        answers: list[Response | AghError] = []
        self.request(method, params, answers.append, limit)
        self._loop.run_until(lambda: bool(answers))
        return self.result_of(answers[0])

    def result_of(self, answer: Response | AghError) -> Any:
        """Return the result of a request; raise what it failed with, as it may be shown."""
        if isinstance(answer, AghError):
            raise answer
        if answer.error is not None:
            error = redacted_error(answer.error, self.redactor)
            failure = RpcError(error, self.with_last_words(error_text(error)))
            failure.hint = hint_for(self._launch.agent, failure.message)
            failure.details |= self.last_lines()
            raise failure
        return answer.result

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self.process.write(encode_notification(method, params))

    def reply(self, request_id: int | str | None, result: Any) -> None:
        self.process.write(encode_result(request_id, result))

    def refuse(self, request_id: int | str | None, code: int, message: str) -> None:
        self.process.write(encode_error(request_id, code, message))

    def answer_with(self, request_id: int | str | None, answer: Mapping[str, Any]) -> None:
        """Answer a request with what somebody else has answered: a result, or an error as it is."""
        self.process.write(encode_answer(request_id, answer))

    def answer(self, request_id: int | str | None, work: Callable[[], None]) -> None:
        """Run the work that answers a request. If it fails, send the agent an error and raise the cause."""
        try:
            work()
        except Exception as error:
            self.refuse(request_id, INTERNAL_ERROR, f"{type(error).__name__}: {error}")
            raise

    def deliver(self, response: Response) -> bool:
        """Pass a response to whoever sent the request; return False if nobody did."""
        if isinstance(response.id, int) and response.id in self._cancelled:
            self._cancelled.discard(response.id)
            return True
        then = self._waiting.pop(response.id, None) if isinstance(response.id, int) else None
        if then is None:
            return False
        then(response)
        return True

    def lost_answer(self, tail: str) -> Response | None:
        """Return the failure of a request whose answer was the end of an overlong line, if there is one."""
        for number in self._waiting:
            if re.search(rf'"id"\s*:\s*{number}\b', tail):
                error = {
                    "code": PARSE_ERROR,
                    "message": "its answer was in a line that is too long to be read",
                }
                return Response(number, None, error, orjson.dumps({"error": error}))
        return None

    def death(self) -> AghError:
        """Return why the agent is gone, as an error."""
        if self.process.start_error is not None:
            return start_failure(self._launch, self.process.start_error)
        how = "closed its stdout but did not exit" if self._closed_stdout else self.process.describe_end()
        words = self.stderr_text().strip()
        lines = self.last_lines()
        if self.process.exit is not None and (explained := self._explain(self.process.exit, words)):
            explained.details |= lines
            return explained
        record, output = self._launch.agent, [*lines.get("stdout", ()), *lines.get("stderr", ())]
        cause = cause_in(output)
        if says_no_package(cause) and not self._has_spoken:
            return AgentNotInstalled(self.name, cause, hint=package_hint(record), **lines)
        hint = hint_for(record, "\n".join(output) if says_old_node("\n".join(output)) else cause)
        if self._stray and not self._has_spoken:
            how = f"{how} and did not speak ACP"
            if record.install and hint == doctor_hint(record):  # often it is too old
                hint = f"update it: {record.install}"
        return AgentDied(self.name, how + (cause and f"; its last output: {cause}"), hint=hint, **lines)

    def with_last_words(self, message: str) -> str:
        """Return the message of an error, with what is on stderr if the message gives no reason."""
        cause = cause_in(last_lines(self.stderr_text())) if message.startswith(NO_REASON) else ""
        return f"{message}; its last output: {cause}" if cause else message

    def last_lines(self) -> dict[str, list[str]]:
        """Return the last lines of stderr, and of what was not a message on stdout, without secrets."""
        lines = {"stderr": last_lines(self.stderr_text()), "stdout": self.stray_lines()}
        return {stream: text for stream, text in lines.items() if text}

    def stray_lines(self) -> list[str]:
        """Return the last lines on stdout that were not messages, without secrets."""
        return last_lines(self.redactor.text("\n".join(self._stray)))

    def _keep_stray_lines(self, frames: list[Frame]) -> None:
        """Keep the beginnings of what is not a message; hold no frame, since it may be many megabytes."""
        for frame in frames:
            if isinstance(frame, Malformed):
                # Its last word may be the beginning of a secret.
                line = frame.head if frame.length <= HEAD else frame.head.rpartition(" ")[0]
                self._stray = [*self._stray, line][-MAX_LINES:]
            else:
                self._has_spoken = True

    def _explain(self, end: dict[str, Any], words: str) -> AghError | None:
        """Return how a plugin explains the end, if it does; a plugin that fails explains nothing."""
        try:
            return self._launch.explain(end, words)
        except Exception:
            return None

    @cached_property
    def redactor(self) -> Redactor:
        """Return the redactor of the secrets in the agent's environment, and of what looks like a secret."""
        return redactor_for(self._launch.environ, self._launch.workspace)

    def stderr_text(self, length: int = STDERR_TAIL) -> str:
        """Return the end of what the agent wrote to stderr, without secrets."""
        return self.redactor.end(bytes(self._stderr).decode(errors="replace"), length)

    def stop_quietly(self, *, eof: float, term: float) -> None:
        """Stop the agent without reporting its end."""
        self._on_end = None
        self.process.end(eof=eof, term=term)

    def _take_output(self, stream: int, data: bytes) -> None:
        if stream == 2:
            self._stderr += data
            del self._stderr[: max(0, len(self._stderr) - STDERR_TAIL - LONGEST)]
            if self._on_stderr is not None:
                self._on_stderr(data)
            return
        frames = self._splitter.feed(data) if data else self._splitter.close()
        self._keep_stray_lines(frames)
        if frames and self._on_frames is not None:
            self._on_frames(self, frames)
        if not data:  # it cannot send anything any more: only its end is left to report
            self._loop.later(STDOUT_GRACE, self._terminate)

    def _terminate(self) -> None:
        if not self.process.over:
            self._closed_stdout = True
            self.process.terminate()
            self._loop.later(STDOUT_GRACE * 3, self.process.kill)

    def _beat(self) -> None:
        """Send a space: before a JSON message it means nothing."""
        if not self.process.over:
            self.process.write(b" ")
            self._loop.later(self._launch.heartbeat, self._beat)

    def _ended(self) -> None:
        waiting, self._waiting = self._waiting, {}
        try:
            for then in waiting.values():
                then(self.death())
        finally:  # whatever went wrong: a session whose agent is gone must end
            try:
                if self._on_end is not None:
                    self._on_end(self)
            finally:
                self._launch.finish()

    def _expire(self, number: int, method: str, limit: float, was_waiting: bool = False) -> None:
        """Give up on a request, unless the user is being asked; then the time starts again."""
        is_waiting = self._is_waiting()
        if number in self._waiting and (is_waiting or was_waiting):
            self._loop.later(limit, lambda: self._expire(number, method, limit, is_waiting))
            return
        then = self._waiting.pop(number, None)
        if then is not None:
            self._cancelled.add(number)
            self.notify("$/cancel_request", {"requestId": number})
            hint = slow_hint(self._launch.agent, method)
            then(TimedOut(f"agent {self.name} ({method})", limit, hint=hint, **self.last_lines()))
