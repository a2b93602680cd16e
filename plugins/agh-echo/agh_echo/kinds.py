"""Names for the types that many modules share.

`typing` is for the type checker alone: to import it would cost a tenth of the start-up.
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
