"""Tasks of a sweep, handed to threads, processes or a cluster in groups worth a second or two."""

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

#: Seconds of work that are handed out at once: much against what a scheduler takes for a task, little to do again.
_GROUP_S = 1.5


def compute(tasks: Sequence[str], store: str) -> float:
    """Computes tasks where it is called; the seconds they took. Results go to the store, so that none is lost with a worker.

    A task that fails stops no other; the first error is raised at the end, with the others as notes.
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


class _Threads:
    """The number of a cluster's threads. Its scheduler is asked once a second, for workers come and go, and answers take time."""

    def __init__(self, client: Any) -> None:
        self._client, self._known, self._until = client, 1, 0.0

    def __call__(self) -> int:
        if time.monotonic() >= self._until:
            self._known, self._until = max(1, sum(self._client.nthreads().values())), time.monotonic() + 1
        return self._known


@contextmanager
def opened(executor: Any) -> Iterator[tuple[Executor, Callable[[], int]]]:
    """What takes tasks, and how many it computes at once: ``"processes"``, the address of a Dask scheduler, a client of Dask, or
    any executor of ``concurrent.futures``."""
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
        yield executor.get_executor(pure=False), _Threads(executor)
    elif isinstance(executor, Executor):
        yield executor, lambda: int(getattr(executor, "_max_workers", 1))
    else:
        raise UsageError("executor is threads, processes, a client of Dask, its address, or an executor of concurrent.futures")


def gather(
    pool: Executor, compute: Callable[[str], str], work: Sequence[str], what: str, said: Callable[[float, str], object] | None
) -> list[str]:
    """What ``compute`` finds of each piece of work elsewhere, in the order of the work. The first error ends the others."""
    futures = [pool.submit(compute, one) for one in work]
    try:
        for done, future in enumerate(as_completed(futures), 1):
            future.result()
            if said:
                said(done / len(futures), what)
        return [future.result() for future in futures]
    finally:
        for future in futures:
            future.cancel()


def distribute(
    missing: Sequence[tuple[str, int]], store: str, executor: Any, said: Callable[[float, str], object] | None
) -> None:
    """Computes tasks elsewhere, each with a number of runs; returns when all are in the store. What tasks raise is raised when all have ended."""
    with opened(executor) as (pool, slots):
        waiting, flying = deque(missing), dict[Future[float], int]()
        runs, done, seconds = sum(count for _, count in missing), 0, 0.0
        failures = list[Exception]()
        try:
            while waiting or flying:
                # Two groups for each slot, so that none waits for us; the first are single tasks, which tell how long one takes.
                while waiting and len(flying) < 2 * slots():
                    wanted = max(1.0, _GROUP_S * done / seconds) if seconds else 1.0
                    group = [waiting.popleft()]
                    while waiting and sum(count for _, count in group) < min(wanted, math.ceil(runs / slots() / 4)):
                        group.append(waiting.popleft())
                    count = sum(count for _, count in group)
                    flying[pool.submit(compute, [task for task, _ in group], store)] = count
                for future in wait(flying, return_when=FIRST_COMPLETED).done:
                    done += flying.pop(future)
                    try:
                        seconds += future.result()
                    except BrokenExecutor:
                        raise
                    except Exception as failure:
                        failures.append(failure)
                if said:
                    said(done / runs, "sweeping")
        finally:
            for future in flying:
                future.cancel()
        raise_all(failures)
