"""The same as `python -m gpuparse parse`."""

import os
import signal
import sys

if __name__ == "__main__" and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Imports take a while; from `run` on, an interruption does more.
    signal.signal(signal.SIGINT, lambda number, frame: os._exit(130))

from gpuparse.__main__ import main
from gpuparse.commands.console import run_and_exit

if __name__ == "__main__":
    run_and_exit(main, ["parse", *sys.argv[1:]])
