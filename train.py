"""The same as `python -m gpuparse train`."""

import sys

from gpuparse.commands.console import run
from gpuparse.commands.train import main

if __name__ == "__main__":
    sys.exit(run(main, sys.argv[1:]))
