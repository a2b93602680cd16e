"""Names for types that many modules share.

Only the type checker needs `typing`: importing it would take a tenth of the start-up time.
"""

from collections.abc import Generator

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Frame = dict[str, Any]
    Steps = Generator[float | str, Any, Any]
else:
    Any, Frame, Steps = object, dict, Generator

__all__ = ["Any", "Frame", "Steps"]
