"""Parse Parquet files with Ray: python examples/ray_parquet.py MODEL INPUT OUTPUT

INPUT: a Parquet file or a folder of them: a row per sentence, list columns form, upos, ...
OUTPUT: a folder, which gets Parquet files with all columns, and head and deprel.
"""

import argparse

import ray

from gpuparse.api.workers import WorkerParser


def parse_parquet(
    model: str, source: str, target: str, *, actors: int, threads: int, gpus: float = 0
) -> None:
    """Parse with some actors, each of which loads the model once and has some threads."""
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.use_datasource_v2 = False  # the newer reader of Ray 2.60 reorders row groups
    context.target_max_block_size = 8 << 20  # small blocks keep all actors busy
    dataset = ray.data.read_parquet(source, num_cpus=0.2)  # reading and writing take little
    parsed = dataset.map_batches(
        WorkerParser,
        fn_constructor_kwargs={
            "model": model, "threads": threads, "device": "cuda" if gpus else "cpu",
        },
        batch_format="pyarrow",
        batch_size=4000,
        compute=ray.data.ActorPoolStrategy(size=actors),
        num_cpus=threads,
        num_gpus=gpus,
    )  # fmt: skip
    parsed.write_parquet(target, ray_remote_args={"num_cpus": 0.2})


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(description=__doc__)
    for name in ("model", "input", "output"):
        arguments.add_argument(name)
    arguments.add_argument("--actors", type=int, default=2)
    arguments.add_argument("--threads", type=int, default=1, help="of each actor")
    arguments.add_argument(
        "--gpus", type=float, default=0, help="of each actor; 0.5: two share one"
    )
    given = arguments.parse_args()
    # On this machine; a cluster is `ray.init(address="auto")`. One CPU is for reading and writing.
    ray.init(num_cpus=given.actors * given.threads + 1, include_dashboard=False)
    parse_parquet(
        given.model, given.input, given.output,
        actors=given.actors, threads=given.threads, gpus=given.gpus,
    )  # fmt: skip
    ray.shutdown()
