"""A request on its way: which operation it is for, which session it means, what it says."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from agh.errors import SessionNotFound
from agh.sessions.listing import is_in
from agh.store import meta, sessions, workspaces
from agh_serve import threads
from agh_serve.feed import Feeds
from agh_serve.fields import Field, read_body, read_query


class Call(NamedTuple):
    """`given` are the checked parameters or members; `directory` is "" where no session is meant."""

    request: Request
    feeds: Feeds
    given: dict[str, Any]
    directory: str
    workspace: str | None


class Operation(NamedTuple):
    """One method of one path. It exists below /api and below /api/workspaces/{workspace}."""

    method: str
    path: str
    run: Callable[[Call], Awaitable[Response]]
    about: str
    answer: dict[str, Any]  # the schema of a successful answer
    query: tuple[Field, ...] = ()
    body: tuple[Field, ...] | None = None
    more: bool = False  # whether the body may have members that are not known
    status: int = 200
    kind: str = "application/json"
    headers: tuple[Field, ...] = ()


async def answer(operation: Operation, request: Request, feeds: Feeds) -> Response:
    given = read_query(request, operation.query)
    if operation.body is not None:
        given |= await read_body(request, operation.body, more=operation.more)
    workspace = request.path_params.get("workspace")
    directory = ""
    if "id" in request.path_params:
        directory = await threads.read(find, request.path_params["id"], workspace)
    return await operation.run(Call(request, feeds, given, directory, workspace))


def find(reference: str, workspace: str | None) -> str:
    """The session's directory; below a workspace only a session of that workspace."""
    if workspace is None:
        return sessions.resolve(reference)
    place = workspaces.find(workspace)
    directory = sessions.resolve(reference, place.path)
    if not is_in(meta.read(directory), place, workspace):  # type: ignore[arg-type]
        raise SessionNotFound(repr(reference))
    return directory
