"""Distributes the tasks of a sweep to processes or a cluster, in groups of a second or two of work."""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, ProcessPoolExecutor, as_completed, wait
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import get_context
from typing import Any

from smrkit import _native
from smrkit._errors import UsageError

#: Seconds of work in a group: long compared with a scheduler's overhead for a task, but quickly repeated if a worker is lost.
_GROUP_S = 1.5


def compute(tasks: Sequence[str], store: str) -> float:
    """Computes tasks in this process, and returns the seconds that they took.

    Each result goes to the store at once, so that a lost worker loses no completed task. A failed task does not stop the others: the first
    error is raised at the end, with the others as notes.
    """
    begun, failures = time.monotonic(), list[Exception]()
    for task in tasks:
        try:
            _native.compute(task, store)
        except Exception as failure:
            failures.append(failure)
    raise_all(failures)
    return time.monotonic() - begun


def raise_all(failures: Sequence[Exception]) -> None:
    """Raises the first of some errors, with the others as notes."""
    if failures:
        for other in failures[1:]:
            failures[0].add_note(str(other))
        raise failures[0]


def _threads_of(client: Any) -> Callable[[], int]:
    """A function for the number of a cluster's threads, which changes as workers come and go. It asks the scheduler at most once a second, as
    this takes time.
    """
    threads, asks_again_at = 1, 0.0

    def count() -> int:
        nonlocal threads, asks_again_at
        if time.monotonic() >= asks_again_at:
            threads, asks_again_at = max(1, sum(client.nthreads().values())), time.monotonic() + 1
        return threads

    return count


@contextmanager
def opened(executor: Any) -> Iterator[tuple[Executor, Callable[[], int]]]:
    """Opens an executor, and yields it with a function for its number of slots.

    ``executor`` is ``"processes"``, the address of a Dask scheduler, a client of Dask, or any executor of ``concurrent.futures``.
    """
    if executor == "processes":
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
            yield pool, lambda: int(getattr(pool, "_max_workers", 1))
    elif isinstance(executor, str):
        if "://" not in executor:
            raise UsageError(f"executor '{executor}': expected threads, processes, or an address such as tcp://scheduler:8786")
        try:
            client = import_module("distributed").Client(executor)
        except ImportError as error:
            raise UsageError(f"{executor} is a scheduler of Dask: pip install dask[distributed]") from error
        with client, opened(client) as both:
            yield both
    elif hasattr(executor, "get_executor"):
        yield executor.get_executor(pure=False), _threads_of(executor)
    elif isinstance(executor, Executor):
        yield executor, lambda: int(getattr(executor, "_max_workers", 1))
    else:
        raise UsageError("executor is threads, processes, a client of Dask, its address, or an executor of concurrent.futures")


def gather(
    pool: Executor, compute: Callable[[str], str], work: Sequence[str], what: str, on_progress: Callable[[float, str], object] | None
) -> list[str]:
    """Runs ``compute`` on each piece of work in the pool. Returns the results in the order of the work; the first error cancels the rest."""
    futures = [pool.submit(compute, piece) for piece in work]
    try:
        for done, future in enumerate(as_completed(futures), 1):
            future.result()
            if on_progress:
                on_progress(done / len(futures), what)
        return [future.result() for future in futures]
    finally:
        for future in futures:
            future.cancel()


def distribute(
    missing: Sequence[tuple[str, int]], store: str, executor: Any, on_progress: Callable[[float, str], object] | None
) -> None:
    """Computes tasks, each given with its number of runs, on an executor. Waits for all tasks, then raises their errors."""
    with opened(executor) as (pool, slots):
        # Each future in flight with the number of its group's runs.
        waiting, in_flight = deque(missing), dict[Future[float], int]()
        all_runs, done_runs, seconds = sum(runs for _, runs in missing), 0, 0.0
        failures = list[Exception]()
        try:
            while waiting or in_flight:
                # Two groups for each slot, so that no slot is ever idle.
                while waiting and len(in_flight) < 2 * slots():
                    # The first groups are single tasks, which measure how long a run takes. No group is more than a quarter of a slot's share.
                    wanted = max(1.0, _GROUP_S * done_runs / seconds) if seconds else 1.0
                    most = min(wanted, math.ceil(all_runs / slots() / 4))
                    task, group_runs = waiting.popleft()
                    group = [task]
                    while waiting and group_runs < most:
                        task, runs = waiting.popleft()
                        group.append(task)
                        group_runs += runs
                    in_flight[pool.submit(compute, group, store)] = group_runs
                for future in wait(in_flight, return_when=FIRST_COMPLETED).done:
                    done_runs += in_flight.pop(future)
                    try:
                        seconds += future.result()
                    except BrokenExecutor:
                        raise
                    except Exception as failure:
                        failures.append(failure)
                if on_progress:
                    on_progress(done_runs / all_runs, "sweeping")
        finally:
            for future in in_flight:
                future.cancel()
        raise_all(failures)
