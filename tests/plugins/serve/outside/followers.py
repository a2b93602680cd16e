"""Many followers of one session, in a process of their own: `followers.py PORT PATH COUNT LAST`.

The token comes on stdin. Prints `ready` when all have got row LAST; then a line `FIRST LAST` on stdin says
which rows to wait for and to measure. Prints as JSON how many followers got every row in order,
and how long after its timestamp a row came.
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from datetime import datetime

_ROW = re.compile(rb'(?s)id: (\d+)\n.*"timestamp":"([^"]+)"}')


class Follower:
    def __init__(self) -> None:
        self.got: list[tuple[int, float]] = []
        self.stamps: dict[int, bytes] = {}
        self.rest = b""

    def take(self, data: bytes, at: float) -> None:
        *frames, self.rest = (self.rest + data).split(b"\n\n")
        for frame in frames:
            if match := _ROW.fullmatch(frame):
                self.got.append((int(match[1]), at))
                self.stamps[int(match[1])] = match[2]


async def follow(port: int, path: str, token: str, follower: Follower, last: int, met: asyncio.Event) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 22)
    head = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n\r\n"
    writer.write(head.encode())
    await reader.readuntil(b"\r\n\r\n")
    while size := int(await reader.readline(), 16):
        follower.take((await reader.readexactly(size + 2))[:-2], time.time())
        if follower.got and follower.got[-1][0] >= last:
            met.set()
    writer.close()


async def main(port: int, path: str, count: int, last_stored: int) -> None:
    loop = asyncio.get_running_loop()
    token = sys.stdin.readline().strip()
    followers = [Follower() for _ in range(count)]
    firsts = [asyncio.Event() for _ in range(count)]
    tasks = [
        asyncio.create_task(follow(port, path, token, follower, last_stored, first))
        for follower, first in zip(followers, firsts, strict=True)
    ]
    await asyncio.gather(*(first.wait() for first in firsts))
    print("ready", flush=True)
    began, last = map(int, (await loop.run_in_executor(None, sys.stdin.readline)).split())
    end = time.monotonic() + 30
    while time.monotonic() < end and any(follower.got[-1][0] < last for follower in followers):
        await asyncio.sleep(0.05)
    for task in tasks:
        task.cancel()
    every = list(range(1, last + 1))
    stamps = {n: datetime.fromisoformat(at.decode()).timestamp() for n, at in followers[0].stamps.items()}
    delays = sorted(
        at - stamps[number] for follower in followers for number, at in follower.got if number >= began
    )
    print(
        json.dumps(
            {
                "complete": sum([number for number, _ in follower.got] == every for follower in followers),
                "rows": len(every),
                "median": delays[len(delays) // 2],
                "p99": delays[int(len(delays) * 0.99)],
            }
        )
    )


asyncio.run(main(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
