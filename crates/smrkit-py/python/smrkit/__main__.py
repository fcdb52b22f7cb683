"""``python -m smrkit sweep FILE.toml --dask ADDRESS`` computes the sweep of a file on other machines."""

import argparse
import sys
from pathlib import Path

from smrkit import Error, sweep


def main() -> int:
    """Executes the command line; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m smrkit", description="Sweeps on processes or a cluster of Dask.")
    command = parser.add_subparsers(required=True).add_parser("sweep", help="compute the runs of a sweep that its store lacks")
    command.add_argument("file", type=Path, help="a sweep's file, as smrkit sweep takes it")
    command.add_argument("--store", type=Path, help="the folder of results (the file's name with .results)")
    where = command.add_mutually_exclusive_group()
    where.add_argument("--dask", metavar="ADDRESS", help="the scheduler, such as tcp://scheduler:8786")
    where.add_argument("--processes", action="store_true", help="processes of this machine instead of threads")
    asked = parser.parse_args()
    store = asked.store or asked.file.with_suffix(".results")
    executor = asked.dask or ("processes" if asked.processes else "threads")
    try:
        swept = sweep(asked.file, store=store, executor=executor, progress=True)
    except Error as error:
        print(f"smrkit: {error}", file=sys.stderr)
        return 1
    print(f"{swept.computed} runs computed, {swept.found} found in {store}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
