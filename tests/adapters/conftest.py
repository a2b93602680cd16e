from tests.adapters.site import site
from tests.restore.told import talked, told
from tests.support.live import live

__all__ = ["live", "site", "talked", "told"]
