from tests.support.live import live

__all__ = ["live"]
