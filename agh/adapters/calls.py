"""Hook calls, made by pluggy, in which one plugin's failure harms no other.

Promises: pluggy decides who is called, in which order, with which parameters and inside which wrappers. If
an implementation or a wrapper raises, the call continues as if its plugin did not implement the hook. The
caller is handed the run of every implementation as it ends, the failed ones with their exception, and stops
the call by raising. Never loads a plugin and never prints: that is the registry's task.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable
from contextlib import suppress
from contextvars import ContextVar
from functools import wraps
from types import ModuleType
from typing import TYPE_CHECKING, Any

from agh.core.named_tuple import NamedTuple

if TYPE_CHECKING:
    import pluggy


class HookRun(NamedTuple):
    """The run of one plugin's implementation of a hook."""

    plugin: str
    started_at: float  # seconds since the epoch
    started: float  # by the monotonic clock
    error: Exception | None = None


class PerPlugin(NamedTuple):
    """An argument of which every plugin gets its own; `make` takes the plugin's name."""

    make: Callable[[str], Any]


class GuardedPlugin:
    """A plugin as pluggy knows it: the hook implementations of its module, each behind a guard."""

    def __init__(self, name: str, module: ModuleType, manager: pluggy.PluginManager) -> None:
        from inspect import isroutine  # here: pluggy has imported it by now, and Tab needs no pluggy

        self.module = module
        for attribute, value in list(vars(module).items()):
            if isroutine(value) and manager.parse_hookimpl_opts(module, attribute) is not None:
                setattr(self, attribute, _guard(name, value))

    def __dir__(self) -> Iterable[str]:
        """Name the hook implementations alone; pluggy examines every name, at 10 µs each."""
        return vars(self).keys() - {"module"}

    def __repr__(self) -> str:
        return repr(self.module)


class _Call:
    """A hook call in progress."""

    def __init__(self, on_end: Callable[[HookRun], None]) -> None:
        self._on_end = on_end
        self.stopped_by: BaseException | None = None

    def end(self, run: HookRun, error: Exception | None = None) -> None:
        """Hand a run that has ended to the caller, and remember if that stops the call."""
        try:
            self._on_end(run._replace(error=error))
        except BaseException as stop:
            self.stopped_by = self.stopped_by or stop
            raise


_current: ContextVar[_Call] = ContextVar("hook call in progress")


def call_hook(hook: pluggy.HookCaller, on_end: Callable[[HookRun], None], **arguments: Any) -> None:
    """Call every implementation of a hook through pluggy, and `on_end` as each one ends.

    If `on_end` raises, the implementations that are left are not called, and the exception is raised here,
    whatever a wrapper makes of it. Results of implementations are seen by wrappers only.
    """
    call = _Call(on_end)
    token = _current.set(call)
    try:
        hook(**arguments)
    finally:
        _current.reset(token)
        if call.stopped_by is not None:
            raise call.stopped_by


def _guard(plugin: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return the implementation with its failures caught; pluggy sees the same signature and options."""
    from inspect import isgeneratorfunction

    return (_guard_wrapper if isgeneratorfunction(function) else _guard_function)(plugin, function)


def _guard_function(plugin: str, function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def guarded(*arguments: Any, **options: Any) -> Any:
        call, run = _current.get(), _start(plugin)
        result, failure = None, None
        try:
            result = function(*_fill(plugin, arguments), **_fill_named(plugin, options))
        except Exception as error:
            failure = error
        call.end(run, failure)
        return result

    return guarded


def _guard_wrapper(plugin: str, function: Callable[..., Generator[None, Any, Any]]) -> Callable[..., Any]:
    @wraps(function)
    def guarded(*arguments: Any, **options: Any) -> Generator[None, Any, Any]:
        call, run = _current.get(), _start(plugin)
        failure = None
        steps = function(*_fill(plugin, arguments), **_fill_named(plugin, options))
        try:
            _enter(steps)
        except Exception as error:
            failure = error
        if failure is not None:
            call.end(run, failure)
            return (yield)
        try:
            result = yield
        except BaseException as stop:
            with suppress(StopIteration):
                steps.throw(stop)
            raise
        try:
            result = _leave(steps, result)
        except Exception as error:
            failure = error
        call.end(run, failure)
        return result

    return guarded


def _enter(steps: Generator[None, Any, Any]) -> None:
    """Run a wrapper up to its `yield`."""
    try:
        next(steps)
    except StopIteration:
        raise RuntimeError("the wrapper did not yield") from None


def _leave(steps: Generator[None, Any, Any], result: Any) -> Any:
    """Send a wrapper the result of what it wraps; return what it makes of it."""
    try:
        steps.send(result)
    except StopIteration as end:
        return end.value
    steps.close()
    raise RuntimeError("the wrapper has a second yield")


def _start(plugin: str) -> HookRun:
    return HookRun(plugin, time.time(), time.monotonic())


def _fill(plugin: str, arguments: Iterable[Any]) -> list[Any]:
    """Return the arguments with the plugin's own in place of each `PerPlugin`."""
    return [value.make(plugin) if isinstance(value, PerPlugin) else value for value in arguments]


def _fill_named(plugin: str, options: dict[str, Any]) -> dict[str, Any]:
    return dict(zip(options, _fill(plugin, options.values()), strict=True))
