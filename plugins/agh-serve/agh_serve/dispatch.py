"""Dispatch: check a request against its operation, find the session it names, and call the handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import anyio
from starlette.requests import Request
from starlette.responses import Response

from agh.core.named_tuple import NamedTuple
from agh.errors import SessionNotFound
from agh.home import Session
from agh.sessions.listing import is_in
from agh.store import meta, sessions, workspaces
from agh_serve import threads
from agh_serve.broadcast import Broadcasts
from agh_serve.fields import Field, read_body, read_query

NO_SESSION = Session("", "")


class Call(NamedTuple):
    """A request as a handler gets it. `params` are the checked query parameters and members of the body."""

    request: Request
    broadcasts: Broadcasts
    params: dict[str, Any]
    session: Session  # NO_SESSION if the path names none
    workspace: str | None


class Operation(NamedTuple):
    """One method of one path. It exists below /api and below /api/workspaces/{workspace}."""

    method: str
    path: str
    handler: Callable[[Call], Awaitable[Response]]
    summary: str
    response_schema: dict[str, Any]  # of a successful response
    query: tuple[Field, ...] = ()
    body: tuple[Field, ...] | None = None
    allows_unknown_members: bool = False  # in the body
    status: int = 200
    media_type: str = "application/json"
    headers: tuple[Field, ...] = ()


async def dispatch(operation: Operation, request: Request, broadcasts: Broadcasts) -> Response:
    params = read_query(request, operation.query)
    if operation.body is not None:
        params |= await read_body(request, operation.body, allow_unknown=operation.allows_unknown_members)
    workspace = request.path_params.get("workspace")
    session = NO_SESSION
    if "id" in request.path_params:
        session = await threads.run_read(find_session, request.path_params["id"], workspace)
    call = Call(request, broadcasts, params, session, workspace)
    if operation.method == "GET":
        return await _handle_while_connected(operation, call)
    return await operation.handler(call)


async def _handle_while_connected(operation: Operation, call: Call) -> Response:
    """Handle a request that only reads; give up when its client leaves."""
    responses: list[Response] = []
    failures: list[Exception] = []

    async def handle() -> None:
        try:
            responses.append(await operation.handler(call))
        except Exception as error:
            failures.append(error)
        group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        group.start_soon(handle)
        while (await call.request.receive())["type"] != "http.disconnect":
            pass
        group.cancel_scope.cancel()
    if failures:
        raise failures[0]
    return responses[0] if responses else Response(status_code=499)


def find_session(reference: str, workspace_reference: str | None) -> Session:
    """Return the session meant. With a workspace, find only sessions of that workspace."""
    if workspace_reference is None:
        return sessions.resolve(reference)
    workspace = workspaces.find(workspace_reference)

    def belongs(metadata: meta.Meta) -> bool:
        return is_in(metadata, workspace, workspace_reference)  # type: ignore[arg-type]

    session = sessions.resolve(reference, workspace.path, belongs)
    if not belongs(meta.read(session)):
        raise SessionNotFound(repr(reference))
    return session
