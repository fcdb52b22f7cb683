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

#: Seconds of work in a group: long compared with a scheduler's own time for a task, and short to repeat.
_GROUP_S = 1.5


def compute(tasks: Sequence[str], store: str) -> float:
    """Computes tasks in this process, and returns the seconds taken. Results go to the store at once, so that a lost worker loses none.

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
    """The number of a cluster's threads. The scheduler is asked at most once a second: workers come and go, but an answer takes time."""

    def __init__(self, client: Any) -> None:
        self._client, self._known, self._until = client, 1, 0.0

    def __call__(self) -> int:
        if time.monotonic() >= self._until:
            self._known, self._until = max(1, sum(self._client.nthreads().values())), time.monotonic() + 1
        return self._known


@contextmanager
def opened(executor: Any) -> Iterator[tuple[Executor, Callable[[], int]]]:
    """Opens ``executor``, and yields it with a function for its number of slots. It is ``"processes"``, the address of a Dask
    scheduler, a client of Dask, or any executor of ``concurrent.futures``."""
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
    """Computes tasks, each with its number of runs, by an executor; returns when all have ended, and raises their errors then."""
    with opened(executor) as (pool, slots):
        waiting, flying = deque(missing), dict[Future[float], int]()
        runs, done, seconds = sum(count for _, count in missing), 0, 0.0
        failures = list[Exception]()
        try:
            while waiting or flying:
                # Two groups for each slot, so that none is ever idle. The first groups are single tasks, to measure how long one takes.
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
