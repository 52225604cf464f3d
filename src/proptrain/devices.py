"""Where to compute: our kernels on the CPU, or torch on a device that it knows."""

from __future__ import annotations

from typing import Any

import torch

from proptrain.errors import InvalidInputError


def torch_device(device: Any) -> torch.device | None:
    """Return the device that torch is to compute on, None for our kernels.

    "auto" is a GPU if torch can use one, else the kernels; "cpu" are the kernels; "cuda", "cuda:1"
    and the like name a device. A `torch.device` is taken at its word, even if it is the CPU.

    >>> torch_device("cpu") is None
    True
    >>> torch_device(torch.device("cpu"))
    device(type='cpu')
    """
    if device == "auto":
        return torch.device("cuda") if torch.cuda.is_available() else None
    if isinstance(device, str) and device == "cpu":
        return None
    try:
        wanted = torch.device(device)
        torch.empty(1, device=wanted)
    except (RuntimeError, TypeError, AssertionError, ValueError) as error:
        first_line = (str(error).splitlines() or [type(error).__name__])[0]
        raise InvalidInputError(
            "device must be 'auto', 'cpu' or what torch can compute on here, such as 'cuda'; got "
            f"{device!r}, of which torch says: {first_line}"
        ) from error
    return wanted
