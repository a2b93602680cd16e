"""An editor as a process of its own: it starts the program that it is given, and passes on what both say.

`python -I -S editor.py COMMAND…`; the first line that it prints is the pid of the program.
"""

from __future__ import annotations

import os
import select
import subprocess
import sys

SIZE = 1 << 16


def main() -> None:
    with subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        os.write(1, b"%d\n" % program.pid)
        sinks = {0: program.stdin.fileno(), program.stdout.fileno(): 1}
        while len(sinks) == 2:
            for source in select.select(list(sinks), [], [])[0]:
                data = os.read(source, SIZE)
                if data:
                    os.write(sinks[source], data)
                else:
                    os.close(sinks.pop(source))


if __name__ == "__main__":
    main()
