"""Training by torch's own operations, for GPUs."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from proptrain.system.torch_sparse import csr_tensor
from proptrain.train.adam import checked_moment, steps_of
from proptrain.train.backend import Backend
from proptrain.train.predictor import Network, Predictor


def torch_backend(device: torch.device) -> Backend:
    """Return what computes on a device that torch knows."""
    return Backend(
        lambda *sizes, **settings: TorchPredictor(*sizes, **settings).to(device),
        partial(TorchFeatures, device=device),
        _probabilities,
        TorchAdam,
        partial(torch.tensor, device=device),
    )


def _probabilities(scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    log_f = torch.log_softmax(scores, dim=1)
    return log_f, log_f.detach().exp()


class TorchPredictor(Predictor):
    """The same two layers, by torch's operations."""

    def __init__(self, *sizes: int, generator: torch.Generator, **settings: Any) -> None:
        super().__init__(*sizes, generator=generator, **settings)
        self._coins: torch.Generator | None = None

    def forward(self, features: TorchFeatures) -> torch.Tensor:  # type: ignore[override]
        """Return the scores, shape (n, C)."""
        dropping = self.training and self.dropout > 0
        if dropping:
            features = features.replaced(self._dropped(features.values))
        hidden = features @ self.weight1  # (n, h)
        hidden = torch.relu(hidden if self.bias1 is None else hidden + self.bias1)
        scores = (self._dropped(hidden) if dropping else hidden) @ self.weight2
        return scores if self.bias2 is None else scores + self.bias2

    def _dropped(self, numbers: torch.Tensor) -> torch.Tensor:
        """Return the numbers with a share of them left out and the rest scaled up."""
        if self._coins is None:  # a generator belongs to a device, and this one now has its own
            self._coins = torch.Generator(numbers.device)
        # Each time from a seed of the network's own generator, which is what a snapshot holds.
        coins = self._coins.manual_seed(int(self.random.integers(2**63)))
        draws = torch.rand(numbers.shape, generator=coins, device=numbers.device)
        return numbers * (draws >= self.dropout) / (1 - self.dropout)


class TorchFeatures:
    """Features (n, f) on a device; sparse ones with their transpose, for the way back."""

    def __init__(self, features: NDArray[np.float32] | sp.csr_array, device: torch.device) -> None:
        self.shape: tuple[int, int] = features.shape
        self.is_sparse = bool(sp.issparse(features))
        if not self.is_sparse:
            self.values = torch.tensor(np.asarray(features, dtype=np.float32), device=device)
            return
        matrix = sp.csr_array(features, dtype=np.float32)
        places = sp.csr_array((np.arange(matrix.nnz), matrix.indices, matrix.indptr), self.shape)
        back = sp.csr_array(places.T)

        def on_device(array: NDArray[Any]) -> torch.Tensor:
            return torch.tensor(array, device=device)

        self.values = on_device(matrix.data)
        self._there = (on_device(matrix.indptr), on_device(matrix.indices))
        self._back = (on_device(back.indptr), on_device(back.indices))
        self._moved = on_device(back.data)  # where each entry of the transpose was before

    def replaced(self, values: torch.Tensor) -> TorchFeatures:
        """Return features with these numbers in the same places."""
        result = copy.copy(self)
        result.values = values
        return result

    def __matmul__(self, weight: torch.Tensor) -> torch.Tensor:
        """Return features @ weight, shape (n, h)."""
        if not self.is_sparse:
            return self.values @ weight
        product: torch.Tensor = _Product.apply(weight, self)  # type: ignore[no-untyped-call]
        return product

    def times(self, dense: torch.Tensor) -> torch.Tensor:
        """Return the sparse features times a matrix."""
        return csr_tensor(*self._there, self.values, self.shape) @ dense

    def transposed_times(self, dense: torch.Tensor) -> torch.Tensor:
        """Return the transpose of the sparse features times a matrix."""
        values = self.values[self._moved]
        return csr_tensor(*self._back, values, self.shape[::-1]) @ dense


class _Product(torch.autograd.Function):
    """features @ weight, with the gradient featuresᵀ @ gradient."""

    @staticmethod
    def forward(ctx: Any, weight: torch.Tensor, features: TorchFeatures) -> torch.Tensor:
        ctx.features = features
        return features.times(weight.detach())

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return ctx.features.transposed_times(gradients[0]), None


class TorchAdam:
    """torch's own Adam."""

    def __init__(self, network: Network, learning_rate: float, weight_decay: float) -> None:
        self._decayed, self._weight_decay = network.first_layer, weight_decay
        others = [one for one in network.parameters() if one is not self._decayed]
        groups: list[dict[str, Any]] = [
            {"params": [self._decayed], "weight_decay": weight_decay},
            {"params": others},
        ]
        self._adam = torch.optim.Adam(groups, lr=learning_rate, fused=True)

    def penalty(self) -> float:
        """Return the part of the loss that pulls the first layer towards zero."""
        return self._weight_decay / 2 * float((self._decayed.detach() ** 2).sum())

    def step(self) -> None:
        """Make a step along the gradients, which are then forgotten."""
        self._adam.step()
        self._adam.zero_grad()

    def state(self) -> dict[str, NDArray[Any]]:
        """Return all that the next step depends on beside weights and gradients."""
        kept: dict[int, dict[str, torch.Tensor]] = self._adam.state_dict()["state"]
        return {
            f"{name}{place}": value.cpu().numpy()
            for place, values in kept.items()
            for name, value in values.items()
        }

    def set_state(self, state: Mapping[str, NDArray[Any]]) -> None:
        """Go on from what `state` returned."""
        told = self._adam.state_dict()
        names = ("step", "exp_avg", "exp_avg_sq")
        parameters = [one for group in self._adam.param_groups for one in group["params"]]
        for place, parameter in enumerate(parameters):  # torch's own loops do not look
            steps_of(state[f"step{place}"])
            for name in names[1:]:
                checked_moment(state[f"{name}{place}"], tuple(parameter.shape))
        told["state"] = {
            place: {name: torch.tensor(state[f"{name}{place}"]) for name in names}
            for place in range(len(parameters))
        }
        self._adam.load_state_dict(told)
