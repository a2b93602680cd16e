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
CURSOR = {"type": "string", "maxLength": 100, "pattern": "^[^/]*/sess-[0-9a-z]+$"}
SEQUENCE = {"type": "string", "pattern": "^[0-9]{1,18}$"}


def object_schema(**members: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": list(members), "properties": members}


def array_schema(items: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": items}


def component_schema(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


PAGE_MEMBERS = {"sessions": array_schema(component_schema("Session")), "next": CURSOR}
AFTER_FIELDS = (
    Field("after", "Only events after this sequence number.", COUNT),
    Field("after_sequence", "The same as after.", COUNT),
)
LAST_FIELDS = (
    Field("last", "At most this many, the newest ones.", COUNT),
    Field("limit", "The same as last.", COUNT),
)
EVENT_TYPES = Field("type", "Only events of these types.", array_schema(enum_schema(*TYPES)))
LIMIT_FIELDS = (
    Field("max_cost", "Pause the session when its cost reaches this amount.", AMOUNT),
    Field("max_turns", "Pause the session after this many turns.", {**COUNT, "maximum": 10**9}),
    Field("max_time", "Pause the session once it has been live for this long.", SPAN),
)
LEASE_FIELDS = (
    Field("attached_to", "Name of the client, as the holder of the lease."),
    Field("ttl", "How long the lease lasts, at most 24h; 15m by default.", SPAN),
    Field("steal", "Take over from another terminal or script.", FLAG),
)
SESSION_RESPONSE = object_schema(session=component_schema("Session"))

EVENT_FILTERS = (
    EVENT_TYPES,
    Field("agent", "Only events of this agent."),
    Field("agent_name", "The same as agent."),
    Field("turn", "Only events of this turn."),
    Field("turn_id", "The same as turn."),
    Field("since", "Only events since this time: RFC 3339, or how long ago, such as 5m, 2h or 3d."),
    *AFTER_FIELDS,
    *LAST_FIELDS,
    Field("where", "Only events for which this SQL expression is true."),
)
OPERATIONS = (
    Operation(
        "GET",
        "/sessions",
        read_handlers.list_sessions,
        "List live sessions and those of the last week, newest activity first, in pages. `next` is the "
        "cursor of the next page, if there is one.",
        object_schema(sessions=array_schema(component_schema("Session"))) | {"properties": PAGE_MEMBERS},
        query=(
            Field("all", "Include old and archived sessions.", FLAG),
            Field("resumable", "Only sessions that can be resumed or attached to.", FLAG),
            Field(
                "why", "With resumable: also list the other sessions, and why they cannot be resumed.", FLAG
            ),
            Field("workspace", "Only sessions of this workspace: a name, an id or a path."),
            Field("state", "Only sessions in this state."),
            Field("status", "Only sessions with this status."),
            Field("badge", "The same as status."),
            Field("agent", "Only sessions of this agent."),
            Field("search", "Only sessions with all these words in name, title, agent, workspace or status."),
            Field("limit", "At most this many; 100 by default.", {**COUNT, "minimum": 1, "maximum": 1000}),
            Field("cursor", "The `next` of the previous page, to get the page after it.", CURSOR),
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
            Field("agent", "Agent to use (default: the configured one, or the first one installed)."),
            Field("workspace", "Directory to work in (default: where the server was started)."),
            Field("name", "Name of the session, unique in its workspace.", {**TEXT, "maxLength": 100}),
            Field(
                "worktree", "Work in a separate git worktree, on this branch (empty: a new branch).", BRANCH
            ),
            Field("permissions", "What the agent may do without asking.", enum_schema(*PERMISSION_MODES)),
            Field("model", "The agent's model."),
            Field("mode", "The agent's mode."),
            Field("options", "The agent's own options.", {**ANY_OBJECT, "additionalProperties": TEXT}),
            *LIMIT_FIELDS,
        ),
    ),
    Operation(
        "GET",
        SESSION_PATH,
        read_handlers.show_session,
        "Show one session and whether it needs to be resumed.",
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
        "Start the session's agent, unless it is running, and take the lease (the right to use the session).",
        object_schema(session=component_schema("Session"), attach={}, restore={}),
        body=(
            Field("attach", "Whether to take the lease (default: true).", FLAG),
            Field("attach_only", "Only attach to a live session; never start the agent.", FLAG),
            Field("agent", "Hand the session to another agent, with its history."),
            Field("fresh", "Discard the agent's memory and start a new conversation.", FLAG),
            Field("require_context", "Fail if the agent cannot restore its own memory.", FLAG),
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
            Field("attached_to", "Name of the client, as the holder of the lease."),
            Field("force", "Release the lease even if somebody else holds it.", FLAG),
        ),
    ),
    Operation(
        "POST",
        f"{SESSION_PATH}/prompt",
        action_handlers.send_prompt,
        "Send a prompt; resume the session first if it is not live. Streams the turn as an AI SDK UI message "
        "stream. With detach, returns at once with status 202 and a receipt.",
        STREAM,
        media_type=SSE,
        allows_unknown_members=True,
        body=(
            Field("prompt", "The text.", LONG_TEXT),
            Field(
                "messages",
                "Messages from an AI SDK client; the last one must be the user's, and is the prompt.",
                array_schema(ANY_OBJECT),
            ),
            Field("mode", "What to do if the session is busy (default: queue).", enum_schema(*MODES)),
            Field("detach", "Return as soon as the prompt is safely queued.", FLAG),
            Field("idempotency_key", "Send nothing if a prompt with this key was already sent."),
        ),
    ),
    Operation(
        "POST",
        f"{SESSION_PATH}/interrupt",
        action_handlers.interrupt_turn,
        "Cancel the turn that is running. The session stays live.",
        object_schema(turn=ANY_OBJECT),
        body=(
            Field("turn_id", "Cancel only if this is the turn that is running."),
            Field("grace", "How long to wait before killing the agent.", SPAN),
        ),
    ),
    Operation(
        "POST",
        f"{SESSION_PATH}/approve",
        action_handlers.decide,
        "Answer a permission request; name it if several are open.",
        object_schema(permission=ANY_OBJECT),
        body=(
            Field("request_id", "Which request."),
            Field("digest", "The request's digest as you saw it; if it has changed, this call fails."),
            Field("decision", "The answer (default: allow).", enum_schema("allow", "deny")),
            Field("always", "Give this answer to similar requests too, if the agent offers that.", FLAG),
        ),
    ),
    Operation(
        "GET",
        f"{SESSION_PATH}/permissions",
        read_handlers.list_permissions,
        "List open permission requests.",
        object_schema(permissions=array_schema(ANY_OBJECT)),
        query=(Field("all", "Include requests that are already decided.", FLAG),),
    ),
    Operation(
        "POST",
        f"{SESSION_PATH}/answer",
        action_handlers.answer,
        "Answer an agent's question; name it if several are open. If the agent is no longer waiting, the "
        "session is resumed and gets the question and the answer as a prompt.",
        object_schema(question=ANY_OBJECT),
        body=(
            Field("request_id", "Which question."),
            Field(
                "decision",
                "The answer: accepted (with content), declined or cancelled.",
                enum_schema("accepted", "declined", "cancelled"),
                required=True,
            ),
            Field("content", "If accepted: the value of each field of the question.", ANY_OBJECT),
        ),
    ),
    Operation(
        "GET",
        f"{SESSION_PATH}/questions",
        read_handlers.list_questions,
        "List the agent's questions that you can answer.",
        object_schema(questions=array_schema(ANY_OBJECT)),
        query=(Field("all", "Include questions that are already answered.", FLAG),),
    ),
    Operation(
        "GET",
        f"{SESSION_PATH}/events",
        read_handlers.list_events,
        "List the stored events.",
        object_schema(events=array_schema(component_schema("Event"))),
        query=EVENT_FILTERS,
    ),
    Operation(
        "GET",
        f"{SESSION_PATH}/history",
        read_handlers.list_turns,
        "List the stored events, grouped by turn.",
        object_schema(turns=array_schema(component_schema("Turn"))),
        query=EVENT_FILTERS,
    ),
    Operation(
        "GET",
        f"{SESSION_PATH}/transcript",
        read_handlers.show_transcript,
        "Show the conversation.",
        object_schema(messages=array_schema(component_schema("Message"))),
    ),
    Operation(
        "GET",
        f"{SESSION_PATH}/recap",
        read_handlers.show_recap,
        "Show a short, redacted summary.",
        object_schema(recap=ANY_OBJECT),
        query=(Field("limit", "How many messages to show.", {**COUNT, "minimum": 1, "maximum": MAX_LIMIT}),),
    ),
    Operation(
        "GET",
        f"{SESSION_PATH}/stream",
        read_handlers.follow_events,
        "Stream the stored events, then new ones, as server-sent events; the last one says how the session "
        "stopped.",
        STREAM,
        media_type=SSE,
        query=(EVENT_TYPES, *AFTER_FIELDS),
        headers=(Field("Last-Event-ID", "Continue after this sequence number.", SEQUENCE),),
    ),
    Operation(
        "GET",
        f"{SESSION_PATH}/view",
        read_handlers.follow_view,
        "Stream what the page shows, as server-sent events: the transcript's HTML, state and requests.",
        STREAM,
        media_type=SSE,
        query=(
            Field("turns", "How many of the newest turns to show (0: all).", COUNT),
            Field("from", "Start at this sequence number instead.", COUNT),
        ),
    ),
)
