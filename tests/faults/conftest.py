from tests.support.live import live
from tests.support.rounds import rounds

__all__ = ["live", "rounds"]
