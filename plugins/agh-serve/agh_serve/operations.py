"""The table of all operations. The server's routes and the OpenAPI document are both built from it."""

from __future__ import annotations

from typing import Any

from agh.config import PERMISSION_MODES
from agh.core.events import TYPES
from agh.core.recap import MAX_LIMIT
from agh.keeper.turns.prompts import MODES
from agh_serve import action_handlers, read_handlers
from agh_serve.dispatch import Operation
from agh_serve.fields import AMOUNT, COUNT, FLAG, SPAN, TEXT, Field, enum_schema

SSE, STREAM = "text/event-stream", {"description": "Server-sent events."}
SESSION_PATH = "/sessions/{id}"
LONG_TEXT = {"type": "string", "minLength": 1}
ANY_OBJECT = {"type": "object"}
BRANCH = {"type": "string", "maxLength": 200, "pattern": r"^[^\u0000]*$"}
SEQUENCE = {"type": "string", "pattern": "^[0-9]{1,18}$"}


def object_schema(**members: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": list(members), "properties": members}


def array_schema(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def component_schema(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


AFTER_FIELDS = (
    Field("after", "Only events after this sequence.", COUNT),
    Field("after_sequence", "The same as after.", COUNT),
)
LAST_FIELDS = (
    Field("last", "Only the newest so many.", COUNT),
    Field("limit", "The same as last.", COUNT),
)
EVENT_TYPES = Field("type", "Only events of these types.", array_schema(enum_schema(*TYPES)))
LIMIT_FIELDS = (
    Field("max_cost", "Pause the session when it has cost this much.", AMOUNT),
    Field("max_turns", "Pause the session after this many turns.", {**COUNT, "maximum": 10**9}),
    Field("max_time", "Pause the session after being live for this long.", SPAN),
)
LEASE_FIELDS = (
    Field("attached_to", "The label of the lease."),
    Field("ttl", "How long the lease lasts, at most 24h; 15m by default.", SPAN),
    Field("steal", "Take the lease from another holder.", FLAG),
)
SESSION_RESPONSE = object_schema(session=component_schema("Session"))

EVENT_FILTERS = (
    EVENT_TYPES,
    Field("agent", "Only events of this agent."),
    Field("agent_name", "The same as agent."),
    Field("turn", "Only events of this turn."),
    Field("turn_id", "The same as turn."),
    Field("since", "RFC 3339, or how long ago: 5m, 2h, 3d."),
    *AFTER_FIELDS,
    *LAST_FIELDS,
    Field("where", "An SQL expression over the columns and content->>'$.…'."),
)
OPERATIONS = (
    Operation(
        "GET",
        "/sessions",
        read_handlers.list_sessions,
        "Sessions that are live or of the last week, newest activity first.",
        object_schema(sessions=array_schema(component_schema("Session"))),
        query=(
            Field("all", "Also old and archived sessions.", FLAG),
            Field("resumable", "Only sessions that can be resumed or attached to.", FLAG),
            Field("workspace", "Only sessions of this workspace: a name, an id or a path."),
            Field("state", "Only sessions in this state."),
            Field("badge", "Only sessions with this badge."),
            Field("agent", "Only sessions of this agent."),
            Field("limit", "At most this many.", COUNT),
        ),
    ),
    Operation(
        "POST",
        "/sessions",
        action_handlers.new_session,
        "Start a session.",
        SESSION_RESPONSE,
        status=201,
        body=(
            Field("agent", "A known agent; the configured one, or the first installed, by default."),
            Field("workspace", "The agent's directory; by default where the server was started."),
            Field("name", "A name to call the session by.", {**TEXT, "maxLength": 100}),
            Field("worktree", "Work in a git worktree of its own, on this branch; empty: a new one.", BRANCH),
            Field(
                "permissions", "What the agent may do without being asked.", enum_schema(*PERMISSION_MODES)
            ),
            Field("model", "The agent's model."),
            Field("mode", "The agent's mode."),
            Field("options", "Options of the agent's own.", {**ANY_OBJECT, "additionalProperties": TEXT}),
            *LIMIT_FIELDS,
        ),
    ),
    Operation(
        "GET",
        SESSION_PATH,
        read_handlers.show_session,
        "One session, and whether it needs to be resumed.",
        SESSION_RESPONSE,
    ),
    Operation(
        "DELETE",
        SESSION_PATH,
        action_handlers.stop,
        "Stop the session's agent. The session stays and can be resumed.",
        SESSION_RESPONSE,
    ),
    Operation(
        "POST",
        f"{SESSION_PATH}/resume",
        action_handlers.resume_session,
        "Make the session live, if it is not, and take its lease. There is never a second agent.",
        object_schema(session=component_schema("Session"), attach={}, restore={}),
        body=(
            Field("attach", "Whether to take the lease; true by default.", FLAG),
            Field("attach_only", "Never restart: only attach to a live session.", FLAG),
            Field("agent", "Hand the session to another agent, with its history."),
            Field("fresh", "Forget the agent's own session and start a new one.", FLAG),
            Field("require_context", "Fail rather than go on without the agent's own memory.", FLAG),
            *LEASE_FIELDS,
            *LIMIT_FIELDS,
        ),
    ),
    Operation(
        "POST",
        f"{SESSION_PATH}/attach",
        action_handlers.attach_session,
        "Take or renew the lease of a live session.",
        object_schema(session=component_schema("Session"), attach=component_schema("Lease")),
        body=LEASE_FIELDS,
    ),
    Operation(
        "POST",
        f"{SESSION_PATH}/detach",
        action_handlers.detach_session,
        "Give the lease back. The agent keeps working.",
        object_schema(detach=ANY_OBJECT),
        body=(
            Field("attached_to", "The label of the lease."),
            Field("force", "Release the lease even if another holds it.", FLAG),
        ),
    ),
    Operation(
        "POST",
        f"{SESSION_PATH}/prompt",
        action_handlers.send_prompt,
        "Send a prompt, resuming the session first if it is not live. Answers with the turn as an AI SDK "
        "UI message stream; with detach, at once, with status 202 and the receipt.",
        STREAM,
        media_type=SSE,
        allows_unknown_members=True,
        body=(
            Field("prompt", "The text.", LONG_TEXT),
            Field(
                "messages",
                "What an AI SDK client sends: the last one, of the user, counts.",
                array_schema(ANY_OBJECT),
            ),
            Field("mode", "What to do when the session is busy; queue by default.", enum_schema(*MODES)),
            Field("detach", "Return as soon as the prompt is safely queued.", FLAG),
            Field("idempotency_key", "A second prompt with the same key is not sent again."),
        ),
    ),
    Operation(
        "POST",
        f"{SESSION_PATH}/interrupt",
        action_handlers.interrupt_turn,
        "Cancel the turn that is running. The session stays live.",
        object_schema(turn=ANY_OBJECT),
        body=(
            Field("turn_id", "Only if this turn is the one that runs."),
            Field("grace", "How long the agent may take before it is ended.", SPAN),
        ),
    ),
    Operation(
        "POST",
        f"{SESSION_PATH}/approve",
        action_handlers.decide,
        "Answer a permission request: the one that is named, or the only one that waits.",
        object_schema(permission=ANY_OBJECT),
        body=(
            Field("request_id", "Which request."),
            Field(
                "digest", "The request's digest as it was shown; if it has changed since, nothing is decided."
            ),
            Field("decision", "allow by default.", enum_schema("allow", "deny")),
            Field("always", "Answer such requests so from now on, if the agent offers that.", FLAG),
        ),
    ),
    Operation(
        "GET",
        f"{SESSION_PATH}/permissions",
        read_handlers.list_permissions,
        "The permission requests that wait for an answer.",
        object_schema(permissions=array_schema(ANY_OBJECT)),
        query=(Field("all", "Also those that were decided.", FLAG),),
    ),
    Operation(
        "POST",
        f"{SESSION_PATH}/answer",
        action_handlers.answer,
        "Answer a question of the agent: the one that is named, or the only one that waits. If the agent no "
        "longer waits for it, the session is resumed, and question and answer are sent as a prompt.",
        object_schema(question=ANY_OBJECT),
        body=(
            Field("request_id", "Which question."),
            Field(
                "decision", "What to answer.", enum_schema("accepted", "declined", "cancelled"), required=True
            ),
            Field("content", "The values by field, of an answer that accepts.", ANY_OBJECT),
        ),
    ),
    Operation(
        "GET",
        f"{SESSION_PATH}/questions",
        read_handlers.list_questions,
        "The agent's questions that can be answered.",
        object_schema(questions=array_schema(ANY_OBJECT)),
        query=(Field("all", "Also those that were answered.", FLAG),),
    ),
    Operation(
        "GET",
        f"{SESSION_PATH}/events",
        read_handlers.list_events,
        "The stored events.",
        object_schema(events=array_schema(component_schema("Event"))),
        query=EVENT_FILTERS,
    ),
    Operation(
        "GET",
        f"{SESSION_PATH}/history",
        read_handlers.list_turns,
        "The stored events, grouped by turn.",
        object_schema(turns=array_schema(component_schema("Turn"))),
        query=EVENT_FILTERS,
    ),
    Operation(
        "GET",
        f"{SESSION_PATH}/transcript",
        read_handlers.show_transcript,
        "The conversation, put together from the stored events.",
        object_schema(messages=array_schema(component_schema("Message"))),
    ),
    Operation(
        "GET",
        f"{SESSION_PATH}/recap",
        read_handlers.show_recap,
        "A short, redacted look back.",
        object_schema(recap=ANY_OBJECT),
        query=(Field("limit", "Of messages.", {**COUNT, "minimum": 1, "maximum": MAX_LIMIT}),),
    ),
    Operation(
        "GET",
        f"{SESSION_PATH}/stream",
        read_handlers.follow_events,
        "The stored events, then those that come, as server-sent events; the last one says how the session "
        "stopped.",
        STREAM,
        media_type=SSE,
        query=(EVENT_TYPES, *AFTER_FIELDS),
        headers=(Field("Last-Event-ID", "Go on after this sequence.", SEQUENCE),),
    ),
    Operation(
        "GET",
        f"{SESSION_PATH}/view",
        read_handlers.follow_view,
        "What the page shows, as server-sent events: HTML elements of the transcript, state, and requests.",
        STREAM,
        media_type=SSE,
        query=(
            Field("turns", "How many of the newest turns to show; 0 for all.", COUNT),
            Field("from", "Begin at this sequence instead.", COUNT),
        ),
    ),
)
