"""The server's own errors, and the HTTP status of every error."""

from __future__ import annotations

from agh.errors import AghError, Bug, DataDamaged, TimedOut, Usage


class AddressTaken(AghError):
    """cannot listen on {0}: {1}"""

    exit = 6
    hint = "agh serve --port 0"


class AddressUnsafe(AghError):
    """{0} can be reached from other machines, and without a token anyone there could control your agents"""

    exit = 2
    hint = "leave out --no-token, or listen on 127.0.0.1"


class TokenUnsafe(AghError):
    """cannot use {0} as the token file: {1}"""

    exit = 5
    hint = "rm {0}; agh then creates a new one"


class Unauthorized(AghError):
    """this needs the server's token"""

    exit = 5
    hint = "send the header: Authorization: Bearer TOKEN, with the token from $AGH_HOME/serve.token"


class HostRefused(AghError):
    """this server refuses requests to the host name {0}"""

    exit = 5
    hint = "agh serve --allow-host NAME"


class OriginRefused(AghError):
    """pages from {0} may not use this server"""

    exit = 5
    hint = "open the server's own page, or, if you trust the site: agh serve --allow-origin URL"


class RequestTooLarge(AghError):
    """the request has more than {0} bytes"""

    exit = 2
    hint = "write the text to a file in the workspace and name that file in the prompt"


class RouteUnknown(AghError):
    """there is nothing at {0}"""

    exit = 4
    hint = "GET /api/openapi.json lists all routes"


class MethodUnknown(AghError):
    """{0} does not accept {1}"""

    exit = 2
    hint = "GET /api/openapi.json lists all routes"


class ServerEnding(AghError):
    """the server is shutting down; the turn continues"""

    exit = 7
    hint = "agh session recap ID"


_STATUS_BY_CLASS: dict[type[AghError], int] = {Unauthorized: 401, RequestTooLarge: 413, MethodUnknown: 405}
# By exit number, because an error that a keeper relays has no class: 7 is "not live", 9 "cannot be started".
_STATUS_BY_EXIT = {
    Usage.exit: 400,
    TimedOut.exit: 504,
    4: 404,
    5: 403,
    6: 409,
    7: 409,
    9: 424,
    DataDamaged.exit: 500,
    Bug.exit: 500,
}
STATUSES = {
    400: "The request cannot be understood.",
    401: "The token is missing or wrong.",
    403: "Refused.",
    404: "There is no such session, agent or workspace.",
    409: "The session's state does not allow it.",
    413: "The request is too large.",
    424: "The agent is not installed or not logged in.",
    500: "Stored data is damaged, or agh has a bug.",
    502: "The agent failed.",
    504: "The keeper or the agent did not answer in time.",
}


def get_status(error: AghError) -> int:
    return _STATUS_BY_CLASS.get(type(error)) or _STATUS_BY_EXIT.get(error.exit, 502)
