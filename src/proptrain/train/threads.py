"""In how many threads torch computes."""

from __future__ import annotations

from threading import Lock

import torch


class OneThread:
    """Lets torch compute in one thread: where its share is small, more are no use.

    Threads that wait for each other at every small step cost more than they bring, and on
    a machine that others use as well they can cost many times more.

    Torch's number is that of the calling thread and of all new ones. So that fits which overlap in
    several threads do not leave each other's, whoever leaves restores what the first one found.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._n_inside = 0
        self._before = 1

    def __enter__(self) -> None:
        with self._lock:
            found = torch.get_num_threads()  # a new thread takes it over when first asked
            if self._n_inside == 0:
                self._before = found
            self._n_inside += 1
            torch.set_num_threads(1)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._n_inside -= 1
            torch.set_num_threads(self._before)


ONE_THREAD = OneThread()
