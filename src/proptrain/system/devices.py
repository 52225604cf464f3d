"""Where to compute: our kernels on the CPU, or torch on a device that it knows."""

from __future__ import annotations

import warnings
from typing import Any

import torch

from proptrain.errors import InvalidInputError
from proptrain.system.torch_sparse import csr_tensor

_FAILURES = (RuntimeError, TypeError, AssertionError, ValueError)
"""How torch says that it cannot."""


def torch_device(device: Any) -> torch.device | None:
    """Return the device that torch is to compute on, None for our kernels.

    "auto" is a GPU if torch can use one, else the kernels; "cpu" are the kernels; "cuda", "cuda:1"
    and the like name a device. A `torch.device` is taken at its word, even if it is the CPU.

    >>> torch_device("cpu") is None
    True
    >>> torch_device(torch.device("cpu"))
    device(type='cpu')
    """
    if isinstance(device, str) and device == "cpu":
        return None
    if isinstance(device, str) and device == "auto":
        return _gpu_that_works()
    try:
        wanted = torch.device(device)
        _try(wanted)
    except _FAILURES as error:
        raise InvalidInputError(
            "device must be 'auto', 'cpu' or what torch can compute on here, such as 'cuda'; got "
            f"{device!r}, of which torch says: {_first_line(error)}"
        ) from error
    return wanted


def check_cpu(device: Any, who: str) -> None:
    """Raise unless the device is the CPU, which "auto" is too, for who computes nowhere else.

    >>> check_cpu("auto", "GNNClassifier")
    """
    if not isinstance(device, str | torch.device) or str(device) not in ("auto", "cpu"):
        raise InvalidInputError(
            f"device must be 'auto' or 'cpu' for {who}, which computes on the CPU alone, got "
            f"{device!r}."
        )


def _gpu_that_works() -> torch.device | None:
    if not torch.cuda.is_available():
        return None
    try:
        _try(torch.device("cuda"))
    except _FAILURES as error:  # full, taken by another process, a driver that does not fit
        warnings.warn(
            f"There is a GPU, but torch cannot compute on it: {_first_line(error)} Using the CPU.",
            UserWarning,
            stacklevel=4,
        )
        return None
    return torch.device("cuda")


def _try(device: torch.device) -> None:
    """Do there what will be done there: some devices have no sparse products, some no float64."""
    one = torch.ones((1, 1), dtype=torch.float64, device=device)
    starts, columns = (torch.tensor(part, device=device) for part in ([0, 1], [0]))
    float((csr_tensor(starts, columns, one[0], (1, 1)) @ one).item())


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
