"""Sending a notification by every notifier of the settings, each on its own.

As a program it reads `{"notify": …, "message": …}` from standard input, and names what failed on standard
error. Promises: it ends within the timeout, and a notifier that fails or hangs keeps no other from working.
It never prints a URL, which may have a secret in it.
"""

from __future__ import annotations

import html
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from agh.core.settings.notify import SENDERS, Notify

LAST_GRACE = 0.5  # seconds in which what was started by a notifier is ended
URGENT = ("needs_you", "failed")
NOTIFICATIONS = ("org.freedesktop.Notifications", "/org/freedesktop/Notifications")


class NotSent(Exception):
    """Why a notifier has not sent the message."""


def send_all(notify: Notify, message: Mapping[str, Any]) -> dict[str, str | None]:
    """Send the message by every notifier at once; return for each what failed, or None."""
    results: dict[str, str | None] = dict.fromkeys(notify.senders, "no answer in time")

    def send(name: str) -> None:
        try:
            _SENDERS[name](notify, message)
            results[name] = None
        except NotSent as error:
            results[name] = str(error)
        except Exception as error:  # a notifier may fail in any way
            results[name] = type(error).__name__

    threads = [threading.Thread(target=send, args=(name,), daemon=True) for name in notify.senders]
    deadline = time.monotonic() + notify.timeout
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline + LAST_GRACE - time.monotonic()))
    return dict(results)


def page_link(session_id: str) -> str | None:
    """Return the link to a session in the page of `agh serve`, if it runs. It never has the token."""
    import socket

    from agh.home import home_path

    try:
        with open(os.path.join(home_path(), "serve.url"), encoding="utf-8") as file:
            url = file.read(1000).strip()
        parts = urlsplit(url)
        with socket.create_connection((parts.hostname or "", parts.port or 80), timeout=0.5):
            return f"{parts.scheme}://{parts.netloc}/#/{session_id}"
    except (OSError, ValueError):
        return None


def _send_to_desktop(notify: Notify, message: Mapping[str, Any]) -> None:
    """Ask the desktop by notify-send, or by D-Bus without it."""
    urgency = "critical" if message["event"] in URGENT else "normal"
    title, body = message["title"], html.escape(_body(message), quote=False)  # desktops take markup in it
    if program := shutil.which("notify-send"):
        words = [program, "--app-name=agh", f"--urgency={urgency}", "--", title, body]
    elif program := shutil.which("gdbus"):
        name, path = NOTIFICATIONS
        call = [program, "call", "--session", f"--dest={name}", f"--object-path={path}"]
        values = ["agh", "0", "", title, body]
        words = [*call, f"--method={name}.Notify", "--", *map(_variant, values), "@as []", "@a{sv} {}", "-1"]
    else:
        raise NotSent("neither notify-send nor gdbus is installed")
    _run(words, notify.timeout, None)


def _variant(text: str) -> str:
    """Return a text or a number as gdbus reads it."""
    return text if text.isdecimal() else json.dumps(text, ensure_ascii=False)


def _send_to_ntfy(notify: Notify, message: Mapping[str, Any]) -> None:
    base, _, topic = notify.ntfy.rpartition("/")
    content = {
        "topic": topic,
        "title": message["title"],
        "message": message["text"] or message["title"],
        "priority": 4 if message["event"] in URGENT else 3,
        "tags": ["agh", message["event"]],
    }
    if message.get("link"):
        content["click"] = message["link"]
    headers = {"Authorization": f"Bearer {notify.ntfy_token}"} if notify.ntfy_token else {}
    _post(base + "/", content, headers, notify.timeout)


def _send_to_webhook(notify: Notify, message: Mapping[str, Any]) -> None:
    _post(notify.webhook, message, {}, notify.timeout)


def _run_command(notify: Notify, message: Mapping[str, Any]) -> None:
    _run(list(notify.command), notify.timeout, json.dumps(message).encode() + b"\n")


def _send_by_apprise(notify: Notify, message: Mapping[str, Any]) -> None:
    """Send by the services that apprise knows. Its log may quote URLs, so nobody gets it."""
    import logging

    try:
        from apprise import Apprise, NotifyType
    except ImportError:
        from agh.adapters.installation import extra_line

        raise NotSent(f"it is not installed: {extra_line('apprise')}") from None
    logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
    services = Apprise()
    invalid = [number for number, url in enumerate(notify.apprise, 1) if not services.add(url)]
    kind = NotifyType.WARNING if message["event"] in URGENT else NotifyType.INFO
    is_sent = not len(services) or services.notify(
        title=message["title"], body=_body(message) or message["title"], notify_type=kind
    )
    if invalid:
        raise NotSent(f"URL number {', '.join(map(str, invalid))} is not a URL that Apprise supports")
    if not is_sent:
        raise NotSent("a service rejected it")


_SENDERS = dict(
    zip(
        SENDERS,
        (_send_to_desktop, _send_to_ntfy, _send_to_webhook, _run_command, _send_by_apprise),
        strict=True,
    )
)


def _body(message: Mapping[str, Any]) -> str:
    return "\n".join(filter(None, (message["text"], message.get("link"))))


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Follows no redirect: it would lose the message, and could take the token to another server."""

    def redirect_request(self, *args: Any) -> None:
        return None


def _post(url: str, content: Mapping[str, Any], headers: Mapping[str, str], timeout: float) -> None:
    data = json.dumps(content).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=timeout):
            pass
    except urllib.error.HTTPError as error:
        advice = "; use the address that it redirects to" if 300 <= error.code < 400 else ""
        raise NotSent(f"HTTP {error.code}{advice}") from None
    except urllib.error.URLError as error:
        raise NotSent(str(error.reason)) from None
    except TimeoutError:
        raise NotSent("no answer in time") from None


def _run(words: list[str], timeout: float, data: bytes | None) -> None:
    """Run a program to its end; kill it and all of its group at the timeout."""
    with subprocess.Popen(
        words,
        stdin=subprocess.PIPE if data is not None else subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd="/",
        start_new_session=True,
    ) as process:
        try:
            with suppress(BrokenPipeError):
                process.communicate(data, timeout)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            raise NotSent("it took too long") from None
    if process.returncode:
        raise NotSent(f"it exited with {process.returncode}")


def main() -> None:
    """Send what is on standard input, and end whatever hangs."""
    request = json.load(sys.stdin)
    notify, message = Notify(**request["notify"]), request["message"]
    message["link"] = page_link(message["session_id"])
    for name, failure in send_all(notify, message).items():
        if failure is not None:
            print(f"notify: {name}: {failure}", file=sys.stderr, flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
