"""A sweep on a cluster that Slurm runs: ``python slurm.py caches.toml``, on a node that can submit jobs.

Takes ``pip install dask-jobqueue`` and smrkit, in an environment that all nodes see; so must be the traces and the store. A job that
is killed loses nothing but what it was at: the next start of the sweep goes on from there.
"""

import argparse
from pathlib import Path

from dask_jobqueue import SLURMCluster

import smrkit


def cluster(**changed):
    """Jobs of one process with eight threads each: the simulator leaves the interpreter's lock to others."""
    asked = {
        "cores": 8,
        "processes": 1,
        "memory": "8GB",
        "walltime": "04:00:00",
        # A worker that a preempted node takes along is no fault of the task that it was at.
        "scheduler_options": {"allowed_failures": 100},
        **changed,
    }
    return SLURMCluster(**asked)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("file", type=Path)
    parser.add_argument("--jobs", type=int, default=16, help="the most jobs at once")
    parser.add_argument("--partition")
    asked = parser.parse_args()
    with cluster(queue=asked.partition) as jobs, jobs.get_client() as client:
        jobs.adapt(minimum_jobs=1, maximum_jobs=asked.jobs)
        store = asked.file.with_suffix(".results").absolute()
        print(smrkit.sweep(asked.file, store=store, executor=client, progress=True))
