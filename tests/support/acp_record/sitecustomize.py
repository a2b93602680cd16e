"""Makes the echo agent write down every frame that it gets and means to send, for `tests.support.acp_schema`.

Put this directory on PYTHONPATH, and set ACP_RECORD to the directory for the recordings, both absolute. What
the agent writes as raw bytes is misbehaviour on purpose and is left out.
"""

import json
import os
import sys

FOLDER = os.environ.get("ACP_RECORD", "")

if FOLDER and "agh_echo" in sys.orig_argv:
    from agh_echo import wire

    # Opened at each write: the agent runs tests of its own on open files.
    path = os.path.join(FOLDER, f"{os.getpid()}-{os.urandom(4).hex()}.jsonl")

    def note(sender, frame):  # type: ignore[no-untyped-def]
        line = json.dumps([sender, frame]).encode() + b"\n"
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.write(file, line)
        os.close(file)

    plain_send, plain_parse = wire.Wire.send, wire.parse

    def send(self, frame):  # type: ignore[no-untyped-def]
        note("agent", frame)
        plain_send(self, frame)

    def parse(line):  # type: ignore[no-untyped-def]
        frame = plain_parse(line)
        note("client", frame)
        return frame

    wire.Wire.send = send
    wire.parse = parse
