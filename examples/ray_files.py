"""Parse a folder of files with Ray: python examples/ray_files.py MODEL INPUT OUTPUT

INPUT: a folder of Parquet files with a row per sentence, or of Arrow or CoNLL-U files.
OUTPUT: a folder, which gets files of the same names with all columns, and head and deprel.
"""

import argparse

import ray

from gpuparse.api.workers import WorkerParser, files_of


def parse_files(
    parse: WorkerParser, source: str, target: str, *, threads: int, gpus: float = 0
) -> list[tuple[int, int]]:
    """Parse each file in a task that reserves some CPUs; Ray repeats it if its process dies.

    Returns: sentences and malformed ones of each file that had no output.
    """

    @ray.remote(num_cpus=threads, num_gpus=gpus, max_retries=3)
    def parsed(source: str, target: str) -> tuple[int, int]:
        return parse.file(source, target)

    return ray.get([parsed.remote(*names) for names in files_of(source, target)])


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    for name in ("model", "input", "output"):
        arguments.add_argument(name)
    arguments.add_argument("--workers", type=int, default=2)
    arguments.add_argument("--threads", type=int, default=1, help="of each worker")
    given = arguments.parse_args()
    parser = WorkerParser(given.model, threads=given.threads)
    # On this machine; a cluster is `ray.init(address="auto")`.
    ray.init(num_cpus=given.workers * given.threads, include_dashboard=False)
    found = parse_files(parser, given.input, given.output, threads=given.threads)
    print(f"{len(found)} files, {sum(sentences for sentences, _ in found):,} sentences")
    ray.shutdown()
