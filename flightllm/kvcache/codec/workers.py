"""The threads of the codecs: one per core, shared by all chunks that a process encodes and decodes.

In these threads torch uses one thread. Otherwise each of them would start threads for all cores, which wait for each
other in busy loops: beside other load, a codec would then lose nearly all of its speed.
"""

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from threading import Lock, Thread
from typing import TypeVar

import torch

_Result = TypeVar("_Result")
_STARTING = Lock()


def in_parallel(tasks: Iterable[Callable[[], _Result]]) -> Iterator[_Result]:
    """Yield the results of the tasks in their order; cancel the others once one fails or the caller stops."""
    started = [_pool(os.getpid()).submit(task) for task in tasks]
    try:
        for one in started:
            yield one.result()
    finally:
        for one in started:
            one.cancel()


@cache
def _pool(process: int) -> ThreadPoolExecutor:  # noqa: ARG001 - a forked process has none of its parent's threads
    return ThreadPoolExecutor(os.cpu_count() or 1, "kv-codec", initializer=_use_one_thread)


def _use_one_thread() -> None:
    """Let torch use one thread in the current thread.

    `torch.set_num_threads` also sets the number for threads that use torch later, so a new thread sets that back.
    """
    with _STARTING:
        others = torch.get_num_threads()
        torch.set_num_threads(1)
        back = Thread(target=torch.set_num_threads, args=(others,))
        back.start()
        back.join()
