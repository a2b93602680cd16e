"""agh runs coding agents as durable sessions on local files.

A plugin needs only `import agh` and `@agh.hookimpl`; `agh.adapters.hookspecs` documents the hooks.
"""

TYPE_CHECKING = False  # what type checkers read as true, without the cost of importing typing
if TYPE_CHECKING:
    from agh.adapters.hookspecs import hookimpl as hookimpl

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Import `hookimpl` on first use: it needs pluggy, which most commands never load."""
    if name == "hookimpl":
        from agh.adapters.hookspecs import hookimpl

        return hookimpl
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
