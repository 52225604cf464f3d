"""The engine that has torch compute, for GPUs."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from proptrain.data.graph import Graph
from proptrain.kernels import OnStep
from proptrain.propagate.engine import Engine, LocalEngine, check_fixed, check_signal
from proptrain.propagate.normalisation import Normalisation, check_normalisation, normalise
from proptrain.propagate.schemes import Scheme
from proptrain.system.torch_sparse import torch_csr


class TorchEngine:
    """Propagates with torch's sparse product on a device; signals come from and go to NumPy."""

    def __init__(
        self, graph: Graph, normalisation: Normalisation = "symmetric", *, device: torch.device
    ) -> None:
        check_normalisation(normalisation)
        self.n_nodes = graph.n_nodes
        self.device = device
        self._graph, self._normalisation = graph, normalisation
        self._operators: dict[np.dtype[Any], torch.Tensor] = {}

    def _operator_in(self, dtype: np.dtype[Any]) -> torch.Tensor:
        """Return Â (n, n) on the device, kept for those who ask for the same type every time."""
        if dtype not in self._operators:
            operator = normalise(self._graph, self._normalisation).astype(dtype)
            self._operators[dtype] = torch_csr(operator, self.device)
        return self._operators[dtype]

    def propagate(
        self,
        signal: NDArray[Any],
        scheme: Scheme,
        *,
        fixed: NDArray[Any] | None = None,
        on_step: OnStep | None = None,
    ) -> NDArray[Any]:
        """Return Ā signal, shape (n, c), in the signal's floating-point type."""
        signal, fixed = check_signal(signal, self.n_nodes), check_fixed(fixed, self.n_nodes)
        start = torch.tensor(signal, device=self.device)
        operator = self._operator_in(signal.dtype)
        held = None if fixed is None else torch.tensor(fixed, device=self.device)
        state = start.clone()
        for neighbours in scheme.mixing:
            state = neighbours * (operator @ state) + (1 - neighbours) * start
            if held is not None:
                state[held] = start[held]
            if on_step is not None:
                on_step(1 / len(scheme.mixing))
        return np.asarray(state.cpu().numpy())


def engine_on(
    device: torch.device | None, graph: Graph, normalisation: Normalisation = "symmetric"
) -> Engine:
    """Return the engine for a device, or for our kernels if it is None."""
    if device is None:
        return LocalEngine(graph, normalisation)
    return TorchEngine(graph, normalisation, device=device)
