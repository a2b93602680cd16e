"""Running a command of agh in another place, under the agh that is installed there.

Promises: the command ends within its limit, however the connection behaves. What the other agh refuses is
raised here as it would be there; a connection that breaks is PlaceGone, never an answer.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from agh.adapters import registry
from agh.adapters.calls import HookRun
from agh.adapters.far_command import FarCommand
from agh.errors import AghError, FarCommandFailed, FarCommandMissing, PlaceGone, PlaceUnknown, Relayed

# What the far side writes to stderr when the command has ended there; without it the connection broke.
_NOTICE = re.compile(r"^agh-place: (ended (\d+)|no-directory|no-program)$", re.MULTILINE)
_NO_DIRECTORY = "create it there, or choose another: dir in [places.NAME], or --on ssh:HOST:DIR"


def prepare_command(
    place: str, arguments: Sequence[str], places: Mapping[str, Mapping[str, Any]]
) -> FarCommand:
    """Return how the command is run there. Raise if no plugin knows the place, or has an agh in it."""
    command = FarCommand(place, tuple(arguments), places)

    def stop_on_failure(run: HookRun) -> None:
        if run.error is not None:
            raise run.error

    registry.call_hook("agh_prepare_far_command", stop_on_failure, command=command)
    if not command.argv:
        raise PlaceUnknown(place)
    return command


def run_command(command: FarCommand, limit: float, text: bytes = b"") -> bytes:
    """Run the command with this text on its stdin; return what it prints."""
    place, program = command.place, command.argv[0]
    try:
        result = subprocess.run(
            command.argv, input=command.preamble + text, capture_output=True, timeout=limit
        )
    except subprocess.TimeoutExpired:
        raise PlaceGone(place, f"no answer within {limit:g} s") from None
    except OSError as error:
        raise PlaceGone(place, f"{program}: {error.strerror}") from None
    failure = explain_end(command, result.returncode, result.stderr)
    if failure is not None:
        raise failure
    return result.stdout


def explain_end(command: FarCommand, code: int, output: bytes) -> AghError | None:
    """Return why a command failed, from the exit code of its connection and what came on stderr."""
    stderr = output.decode(errors="replace")
    notices = list(_NOTICE.finditer(stderr))
    lines = [line for line in _NOTICE.sub("", stderr).splitlines() if line.strip()]
    if not notices:
        return PlaceGone(command.place, lines[-1] if lines else f"{command.argv[0]} exited with {code}")
    if notices[-1][1] == "no-program":
        return FarCommandMissing(command.place)
    if notices[-1][1] == "no-directory":
        return FarCommandFailed(command.place, "its directory does not exist there", hint=_NO_DIRECTORY)
    ended = int(notices[-1][2])
    return _explain_failure(command.place, ended, lines) if ended else None


def _explain_failure(place: str, code: int, lines: list[str]) -> AghError:
    """Return the error that the other agh printed last, or its last line if that is none."""
    words = [line for line in lines if not line.startswith("hint: ")] or [f"agh exited with {code}"]
    last = words[-1].removeprefix("agh: ")
    try:
        error = orjson.loads(last)["error"]
        return Relayed({**error, "message": f"{place}: {error['message']}", "exit": code})
    except (orjson.JSONDecodeError, KeyError, TypeError):
        failure = FarCommandFailed(place, last)
        failure.exit = code
        return failure
