"""What an agent asks, passed on to the client: permission requests and questions.

Promises: they can still be answered elsewhere, and the first answer counts; the client hears when its
answer is not needed any more. A client that never answers, answers with an error or closes the dialog
holds up nothing: the request waits as it would without the client.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from agh.core.acp.permission import headline
from agh.core.events import Row
from agh.errors import AghError
from agh.home import Session
from agh.sessions.requests.permissions import decide, find_request
from agh.sessions.requests.questions import answer, find_question
from agh.store.reader import Reader
from agh_acp.capabilities import Client
from agh_acp.wire import Message, Wire

VERDICTS = {
    "allow_once": "allow",
    "allow_always": "allow_always",
    "reject_once": "deny",
    "reject_always": "deny_always",
}
_DECISIONS = {"accept": "accepted", "decline": "declined"}


class Requests:
    """The requests of one session that the client has been asked to answer."""

    def __init__(self, session: Session, wire: Wire, client: Client, run: Callable[[Any], None]) -> None:
        self._session, self._wire, self._client, self._run = session, wire, client, run
        self._sent: dict[str, int] = {}  # ids of messages, by the ids of the requests

    def take(self, row: Row) -> str | None:
        """Ask the client, or withdraw what was decided; return what to tell a client that cannot be asked."""
        content = row.parsed()
        request_id = str(content.get("request_id"))
        if content.get("decision"):
            self._withdraw(request_id)
            return None
        if row.type == "permission":
            self._ask_permission(request_id, content)
            return None
        return self._ask_question(request_id, content)

    def withdraw_all(self) -> None:
        """Take back everything: the client has left the session."""
        for request_id in list(self._sent):
            self._withdraw(request_id)

    def _withdraw(self, request_id: str) -> None:
        number = self._sent.pop(request_id, None)
        if number is not None:
            self._wire.withdraw(number)

    def _ask_permission(self, request_id: str, content: Mapping[str, Any]) -> None:
        with Reader(self._session) as reader:
            rows = reader.fetch(
                "SELECT request FROM permissions WHERE request_id = ? AND status = 'pending'", [request_id]
            )
        if not rows:
            return  # it was decided at once, by a rule or a mode
        options = orjson.loads(rows[0][0])
        params = permission_params(self._session.id, request_id, content, options)

        def take_answer(message: Message) -> None:
            self._sent.pop(request_id, None)
            option = chosen_option(message, options)
            if option is not None and option.get("kind") in VERDICTS:
                self._run(lambda: self._decide(request_id, option))

        self._sent[request_id] = self._wire.request("session/request_permission", params, take_answer)

    def _decide(self, request_id: str, option: Mapping[str, Any]) -> None:
        try:
            request = find_request(self._session, request_id)
            if request is not None:
                verdict = VERDICTS[option["kind"]]
                decide(self._session, request, verdict, by="acp", option_id=option["optionId"])
        except AghError:
            pass  # somebody else was faster, or the session has ended

    def _ask_question(self, request_id: str, content: Mapping[str, Any]) -> str | None:
        question = find_question(self._session, request_id)
        if question is None or question["status"] != "pending":
            return None
        raw = content.get("raw")
        params = raw.get("params") if isinstance(raw, dict) else None
        can_show = self._client.links if question["mode"] == "url" else self._client.forms
        if not can_show or not isinstance(params, dict):
            words = " ".join(question["message"].split())[:500]
            return f"the agent asks: {words} (answer with: agh session answer {self._session.id})"

        def take_answer(message: Message) -> None:
            self._sent.pop(request_id, None)
            result = message.get("result")
            result = result if isinstance(result, dict) else {}
            decision = _DECISIONS.get(str(result.get("action")))
            if decision is not None:
                values = result.get("content")
                values = values if isinstance(values, dict) else {}
                self._run(lambda: self._answer(question, decision, values))

        params = {**params, "sessionId": self._session.id}
        self._sent[request_id] = self._wire.request("elicitation/create", params, take_answer)
        return None

    def _answer(self, question: Mapping[str, Any], decision: str, values: dict[str, Any]) -> None:
        try:
            answer(self._session, question, decision, values, by="acp")
        except AghError:
            pass  # somebody else was faster, or the answer does not fit: then it can still be answered


def permission_params(
    session_id: str, request_id: str, content: Mapping[str, Any], options: list[dict[str, Any]]
) -> dict[str, Any]:
    """Return the parameters of a permission request: the agent's own, or those of a file or a terminal."""
    raw = content.get("raw")
    params = raw.get("params") if isinstance(raw, dict) else None
    if isinstance(params, dict) and isinstance(params.get("toolCall"), dict):
        return {**params, "sessionId": session_id}
    call = {"toolCallId": str(content.get("tool_call_id") or request_id), "title": headline(content)}
    return {"sessionId": session_id, "toolCall": call, "options": options}


def chosen_option(message: Message, options: list[dict[str, Any]]) -> dict[str, Any] | None:
    """Return the option that an answer selects; None if it selects none."""
    result = message.get("result")
    outcome = result.get("outcome") if isinstance(result, dict) else None
    if not isinstance(outcome, dict) or outcome.get("outcome") != "selected":
        return None
    return next((option for option in options if option.get("optionId") == outcome.get("optionId")), None)
