from tests.restore.told import talked, told
from tests.support.live import live

__all__ = ["live", "talked", "told"]
