"""Every route, in one table. The server's routes and the OpenAPI document are both made from it."""

from __future__ import annotations

from typing import Any

from agh.config import PERMISSION_MODES
from agh.core.events import TYPES
from agh.core.recap import MAX_LIMIT
from agh.keeper.turns.prompts import MODES
from agh_serve import acting, reading
from agh_serve.calls import Operation
from agh_serve.fields import AMOUNT, COUNT, FLAG, SPAN, TEXT, Field, one_of

SSE, STREAM = "text/event-stream", {"description": "Server-sent events."}
ONE = "/sessions/{id}"
LONG_TEXT = {"type": "string", "minLength": 1}
ANY = {"type": "object"}
BRANCH = {"type": "string", "maxLength": 200, "pattern": r"^[^\u0000]*$"}
SEQUENCE = {"type": "string", "pattern": "^[0-9]{1,18}$"}


def has(**members: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "required": list(members), "properties": members}


def many(of: dict[str, Any]) -> dict[str, Any]:
    return {"type": "array", "items": of}


def ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


AFTER = (
    Field("after", "Only events after this sequence.", COUNT),
    Field("after_sequence", "The same as after.", COUNT),
)
LAST = (Field("last", "Only the newest so many.", COUNT), Field("limit", "The same as last.", COUNT))
KINDS = Field("type", "Only events of these types.", many(one_of(*TYPES)))
LIMITS = (
    Field("max_cost", "Pause the session when it has cost this much.", AMOUNT),
    Field("max_turns", "Pause the session after this many turns.", {**COUNT, "maximum": 10**9}),
    Field("max_time", "Pause the session after being live for this long.", SPAN),
)
LEASE = (
    Field("attached_to", "The label of the lease."),
    Field("ttl", "How long the lease lasts, at most 24h; 15m by default.", SPAN),
    Field("steal", "Take the lease from another holder.", FLAG),
)
SESSION = has(session=ref("Session"))

OPERATIONS = (
    Operation(
        "GET",
        "/sessions",
        reading.list_sessions,
        "Sessions that are live or of the last week, newest activity first.",
        has(sessions=many(ref("Session"))),
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
        acting.new_session,
        "Start a session.",
        SESSION,
        status=201,
        body=(
            Field("agent", "A known agent; the configured one, or the first installed, by default."),
            Field("workspace", "The agent's directory; by default where the server was started."),
            Field("name", "A name to call the session by.", {**TEXT, "maxLength": 100}),
            Field("worktree", "Work in a git worktree of its own, on this branch; empty: a new one.", BRANCH),
            Field("permissions", "What the agent may do without being asked.", one_of(*PERMISSION_MODES)),
            Field("model", "The agent's model."),
            Field("mode", "The agent's mode."),
            Field("options", "Options of the agent's own.", {**ANY, "additionalProperties": TEXT}),
            *LIMITS,
        ),
    ),
    Operation(
        "GET",
        ONE,
        reading.show_session,
        "One session, and whether it needs to be resumed.",
        SESSION,
    ),
    Operation(
        "DELETE",
        ONE,
        acting.stop,
        "Stop the session's agent. The session stays and can be resumed.",
        SESSION,
    ),
    Operation(
        "POST",
        f"{ONE}/resume",
        acting.resume_session,
        "Make the session live, if it is not, and take its lease. There is never a second agent.",
        has(session=ref("Session"), attach={}, restore={}),
        body=(
            Field("attach", "Whether to take the lease; true by default.", FLAG),
            Field("attach_only", "Never restart: only attach to a live session.", FLAG),
            Field("agent", "Hand the session to another agent, with its history."),
            Field("fresh", "Forget the agent's own session and start a new one.", FLAG),
            Field("require_context", "Fail rather than go on without the agent's own memory.", FLAG),
            *LEASE,
            *LIMITS,
        ),
    ),
    Operation(
        "POST",
        f"{ONE}/attach",
        acting.attach_session,
        "Take or renew the lease of a live session.",
        has(session=ref("Session"), attach=ref("Lease")),
        body=LEASE,
    ),
    Operation(
        "POST",
        f"{ONE}/detach",
        acting.detach_session,
        "Give the lease back. The agent goes on working.",
        has(detach=ANY),
        body=(
            Field("attached_to", "The label of the lease."),
            Field("force", "Free the lease whoever holds it.", FLAG),
        ),
    ),
    Operation(
        "POST",
        f"{ONE}/prompt",
        acting.send_prompt,
        "Send a prompt, resuming the session first if it is not live. Answers with the turn as an AI SDK "
        "UI message stream; with detach, at once, with status 202 and the receipt.",
        STREAM,
        kind=SSE,
        more=True,
        body=(
            Field("prompt", "The text.", LONG_TEXT),
            Field("messages", "What an AI SDK client sends: the last one, of the user, counts.", many(ANY)),
            Field("mode", "What to do when the session is busy; queue by default.", one_of(*MODES)),
            Field("detach", "Return as soon as the prompt is safely queued.", FLAG),
            Field("idempotency_key", "A second prompt with the same key is not sent again."),
        ),
    ),
    Operation(
        "POST",
        f"{ONE}/interrupt",
        acting.interrupt_turn,
        "Cancel the turn that is running. The session stays live.",
        has(turn=ANY),
        body=(
            Field("turn_id", "Only if this turn is the one that runs."),
            Field("grace", "How long the agent may take before it is ended.", SPAN),
        ),
    ),
    Operation(
        "POST",
        f"{ONE}/approve",
        acting.decide,
        "Answer a permission request: the one that is named, or the oldest that waits.",
        has(permission=ANY),
        body=(
            Field("request_id", "Which request."),
            Field("decision", "allow by default.", one_of("allow", "deny")),
            Field("always", "Choose the agent's option that lasts, where it offers one.", FLAG),
        ),
    ),
    Operation(
        "GET",
        f"{ONE}/permissions",
        reading.list_permissions,
        "The permission requests that wait for an answer.",
        has(permissions=many(ANY)),
        query=(Field("all", "Also those that were decided.", FLAG),),
    ),
    Operation(
        "GET",
        f"{ONE}/events",
        reading.list_events,
        "The stored events.",
        has(events=many(ref("Event"))),
        query=(
            KINDS,
            Field("agent", "Only events of this agent."),
            Field("agent_name", "The same as agent."),
            Field("turn", "Only events of this turn."),
            Field("turn_id", "The same as turn."),
            Field("since", "RFC 3339, or how long ago: 5m, 2h, 3d."),
            *AFTER,
            *LAST,
            Field("where", "An SQL expression over the columns and content->>'$.…'."),
        ),
    ),
    Operation(
        "GET",
        f"{ONE}/history",
        reading.list_turns,
        "The stored events, grouped by turn.",
        has(turns=many(ref("Turn"))),
        query=LAST,
    ),
    Operation(
        "GET",
        f"{ONE}/transcript",
        reading.show_transcript,
        "The conversation, put together from the stored events.",
        has(messages=many(ref("Message"))),
    ),
    Operation(
        "GET",
        f"{ONE}/recap",
        reading.show_recap,
        "A short, redacted look back.",
        has(recap=ANY),
        query=(Field("limit", "Of messages.", {**COUNT, "minimum": 1, "maximum": MAX_LIMIT}),),
    ),
    Operation(
        "GET",
        f"{ONE}/stream",
        reading.follow_events,
        "The stored events, then those that come, as server-sent events; the last one says how the session "
        "stopped.",
        STREAM,
        kind=SSE,
        query=(KINDS, *AFTER),
        headers=(Field("Last-Event-ID", "Go on after this sequence.", SEQUENCE),),
    ),
    Operation(
        "GET",
        f"{ONE}/view",
        reading.follow_view,
        "What the page shows, as server-sent events: HTML elements of the transcript, state, and requests.",
        STREAM,
        kind=SSE,
        query=(
            Field("turns", "How many of the newest turns to show; 0 for all.", COUNT),
            Field("from", "Begin at this sequence instead.", COUNT),
        ),
    ),
)
