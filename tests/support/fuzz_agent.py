"""An agent that says what a fuzzer made: `python -m tests.support.fuzz_agent FILE`.

The file has a line of JSON for each method, its answer: `["initialize", text]`, where the text is sent as it
is, with the id put in for ID. Lines `["frame", text]` are sent in the turns that ask for them: the prompt
says from which to which. While it sends, it reads and drops what it is answered.
"""

import json
import os
import sys

answers, frames = {}, []
with open(sys.argv[1]) as file:
    for line in file:
        method, text = json.loads(line)
        if method == "frame":
            frames.append(text)
        else:
            answers[method] = text
os.set_blocking(0, False)
received = b""


def read():
    global received
    try:
        data = os.read(0, 1 << 20)
    except BlockingIOError:
        return False
    if not data:
        os._exit(0)
    received += data
    return True


def write(text):
    data = text.encode("utf-8", "surrogatepass") + b"\n"
    while data:
        data = data[os.write(1, data) :]


def wait_readable():
    import select

    select.select([0], [], [])


while True:
    line, newline, rest = received.partition(b"\n")
    if not newline:
        wait_readable()
        read()
        continue
    received = rest
    message = json.loads(line)
    if "method" not in message or "id" not in message:
        continue
    if message["method"] == "session/prompt" and frames:
        first, last = map(int, message["params"]["prompt"][0]["text"].split())
        for text in frames[first:last]:
            write(text)
            while read():
                pass
            received = received.rpartition(b"\n")[2] if b'"session/cancel"' not in received else received
        answer = '{"jsonrpc":"2.0","id":ID,"result":{"stopReason":"end_turn"}}'
    else:
        answer = answers.get(message["method"], '{"jsonrpc":"2.0","id":ID,"result":{}}')
    write(answer.replace("ID", json.dumps(message["id"]), 1))
