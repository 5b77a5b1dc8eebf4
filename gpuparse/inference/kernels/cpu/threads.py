"""The old place of `gpuparse.inference.threads`."""

from gpuparse.inference.threads import WORTH_A_THREAD, run_in_threads

__all__ = ["WORTH_A_THREAD", "run_in_threads"]
