"""The failures that only councils have; see agh.errors."""

from __future__ import annotations

from agh.errors import AghError


class ProfileInvalid(AghError):
    """{0}: {1}"""

    exit = 2
    hint = "correct the profile, then check it: agh council validate {0}"


class NotACouncil(AghError):
    """session {0} is not a council"""

    exit = 4
    hint = "agh council list"


class NoCouncil(AghError):
    """there is no council in this workspace"""

    exit = 4
    hint = "agh council list, or start one: agh council run PROFILE --brief FILE"


class GateWaits(AghError):
    """council {0} is waiting at a gate: {1}"""

    exit = 5
    hint = "agh council gate approve {0}, or: agh council gate reject {0} --feedback TEXT"


class NoGate(AghError):
    """council {0} is not waiting at a gate"""

    exit = 6
    hint = "agh council status {0}"


class CouncilPaused(AghError):
    """council {0} is paused: {1}"""

    exit = 6
    hint = "agh council resume {0}"


class CouncilLimit(AghError):
    """council {0} has reached its limit: {1}"""

    exit = 6
    hint = "agh council resume {0} {2} N"


class CouncilStopped(AghError):
    """council {0} has stopped: {1}"""

    exit = 7
    hint = "agh council resume {0}"


class MemberUnknown(AghError):
    """council {0} has no member {1}; it has {2}"""

    exit = 4
    hint = "agh council status {0}"
