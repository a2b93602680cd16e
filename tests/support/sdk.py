"""The official Python SDK of ACP: imported only by the tests that need it, and in half the time.

Its models take most of a second to import, which every worker would pay when it collects the tests.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any


@cache
def load_sdk(module: str = "acp") -> Any:
    """Import a module of the SDK; its models are built when they are first used.

    They are built without the texts in their sources, and read and write the same.
    """
    import pydantic

    pydantic.BaseModel.model_config["defer_build"] = True
    with suppress(ImportError):
        from pydantic._internal import _fields

        _fields.extract_docstrings_from_cls = lambda *_, **__: {}
    return import_module(module)


def load_model(name: str) -> Any:
    """Return a model of the SDK's schema."""
    return getattr(load_sdk("acp.schema"), name)
