"""A sweep on a cluster that Slurm runs: ``python -m smrkit.cluster.on_slurm caches.toml``, on a node that can submit jobs.

It needs ``pip install dask-jobqueue`` (0.9) and smrkit in an environment that all nodes see. They must see the traces and the store too. A
killed job loses only its current run. Start the sweep again to continue it.
"""

import argparse
from pathlib import Path

try:
    from dask_jobqueue import SLURMCluster
except ModuleNotFoundError as missing:
    raise SystemExit(f"no module {missing.name} here: pip install dask-jobqueue") from None

import smrkit

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Computes a sweep in jobs of Slurm.")
    parser.add_argument("file", type=Path, help="the sweep's file, as smrkit sweep takes it")
    parser.add_argument("--jobs", type=int, default=16, help="the most jobs at once (16)")
    parser.add_argument("--cores", type=int, default=8, help="cores of a job (8)")
    parser.add_argument("--memory", default="8GB", help="memory of a job (8GB)")
    parser.add_argument("--walltime", default="04:00:00", help="after which Slurm ends a job (04:00:00)")
    parser.add_argument("--partition")
    parser.add_argument("--account")
    parser.add_argument("--interface", help="the network between the nodes, such as ib0")
    parser.add_argument("--prologue", action="append", default=[], help="a line of shell before the worker, such as 'module load python'")
    parser.add_argument("--logs", default="slurm-logs", help="the folder for what jobs print (slurm-logs)")
    asked = parser.parse_args()
    cluster = SLURMCluster(
        queue=asked.partition,
        account=asked.account,
        walltime=asked.walltime,
        cores=asked.cores,
        # One process with a thread for each core, because the simulator releases the interpreter's lock.
        processes=1,
        memory=asked.memory,
        interface=asked.interface,
        job_script_prologue=asked.prologue,
        log_directory=asked.logs,
        # A task that was on several nodes that Slurm took away has not failed itself.
        scheduler_options={"allowed_failures": 100},
    )
    with cluster as jobs, jobs.get_client() as client:
        jobs.adapt(minimum_jobs=1, maximum_jobs=asked.jobs)
        store = asked.file.with_suffix(".results").absolute()
        print(smrkit.sweep(asked.file, store=store, executor=client, progress=True))
