"""Forks a process while its threads parse: `python -m tests.forks MODEL INPUT text|conllu FORKS`.

Prints how many children parsed as the parent does. A child that hangs is killed after 20 seconds.
"""

import faulthandler
import os
import random
import sys
import threading
import time
from pathlib import Path

import gpuparse

LIMIT = 20  # seconds of a child


def main(model: str, file: str, kind: str, forks: int) -> None:
    parser, text = gpuparse.load(model, threads=2), Path(file).read_text(encoding="utf8")

    parse = parser.parse_text if kind == "text" else parser.parse

    def parsed() -> str:
        return parse(text).to_conllu()

    expected, stop = parsed(), threading.Event()

    def work() -> None:
        while not stop.is_set():
            parsed()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    right = 0
    for _ in range(forks):
        time.sleep(random.random() * 0.02)
        child = os.fork()
        if not child:
            # A child that hangs says where, and ends.
            faulthandler.dump_traceback_later(LIMIT, exit=True)
            os._exit(int(parsed() != expected))
        right += os.waitpid(child, 0)[1] == 0
    stop.set()
    for thread in threads:
        thread.join()
    print(right)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4]))
