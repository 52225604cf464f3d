"""The few loops that run hot on a CPU, compiled once by Numba.

Each number of a product is summed in the order in which the entries are stored, with fused
multiply-add wherever the CPU has it. Library products choose another order on each make of CPU, and
in Adam's first step a gradient of 1e-8 turns their rounding into a visible part of the weight (see
docs/deviations.md).
"""

from proptrain.kernels.dropout import drop_entries, dropout_scale, pass_active, rectify
from proptrain.kernels.probabilities import agreement, count_alike, log_softmax
from proptrain.kernels.products import (
    active_gradients,
    active_product,
    dense_product,
    sparse_product,
    transposed_product,
    transposed_sparse_product,
)
from proptrain.kernels.propagation import (
    ByDegree,
    OnStep,
    PlainOperator,
    mix_numbered,
    mix_plain,
    propagate_plain,
    propagate_signal,
    propagation_step,
)

__all__ = [
    "ByDegree",
    "OnStep",
    "PlainOperator",
    "active_gradients",
    "active_product",
    "agreement",
    "count_alike",
    "dense_product",
    "drop_entries",
    "dropout_scale",
    "log_softmax",
    "mix_numbered",
    "mix_plain",
    "pass_active",
    "propagate_plain",
    "propagate_signal",
    "propagation_step",
    "rectify",
    "sparse_product",
    "transposed_product",
    "transposed_sparse_product",
]
