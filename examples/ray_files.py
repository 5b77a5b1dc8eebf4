"""Parse a folder of files with Ray: python examples/ray_files.py MODEL INPUT OUTPUT

INPUT: a folder of Parquet files with a row per sentence, or of Arrow or CoNLL-U files.
OUTPUT: a folder, which gets files of the same names with all columns, and head and deprel.
"""

import argparse

import ray

from gpuparse.interop.files import FileParser, ParsedFile


def parse_files(
    parse: FileParser, *, threads: int, gpus: float = 0, existing: str = "fail"
) -> list[ParsedFile]:
    """Parse each file in a task that reserves some CPUs; Ray repeats it if its process dies."""

    @ray.remote(num_cpus=threads, num_gpus=gpus, max_retries=3)
    def parsed(name: str) -> ParsedFile:
        return parse(name)

    return ray.get([parsed.remote(name) for name in parse.files(existing)])


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    for name in ("model", "input", "output"):
        arguments.add_argument(name)
    arguments.add_argument("--workers", type=int, default=2)
    arguments.add_argument("--threads", type=int, default=1, help="of each worker")
    arguments.add_argument("--existing", default="fail", help="outputs: fail, keep or replace")
    given = arguments.parse_args()
    function = FileParser(given.model, given.input, given.output, threads=given.threads)
    # On this machine; a cluster is `ray.init(address="auto")`.
    ray.init(num_cpus=given.workers * given.threads, include_dashboard=False)
    found = parse_files(function, threads=given.threads, existing=given.existing)
    print(f"{len(found)} files, {sum(file.sentences for file in found):,} sentences")
    ray.shutdown()
