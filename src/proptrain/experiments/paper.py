"""The paper's own numbers, to stand beside ours; nothing is computed from them."""

from __future__ import annotations

from types import MappingProxyType
from typing import NamedTuple

from proptrain.experiments.specs import DATASETS


class Published(NamedTuple):
    """A mean accuracy in percent and the half-width of its 95 % interval, over 100 runs."""

    mean: float
    half_width: float


def _row(*cells: tuple[float, float]) -> dict[str, Published]:
    return {name: Published(*cell) for name, cell in zip(DATASETS, cells, strict=True)}


def _numbers(*values: float) -> dict[str, float]:
    return dict(zip(DATASETS, values, strict=True))


ACCURACY = MappingProxyType(
    {
        "MLP": _row((63.98, 0.44), (68.42, 0.34), (69.47, 0.47), (89.69, 0.10)),
        "GCN": _row((73.62, 0.39), (82.70, 0.39), (76.84, 0.44), (91.39, 0.10)),
        "SGCN": _row((75.57, 0.28), (75.97, 0.72), (71.24, 0.86), (91.03, 0.16)),
        "DAGNN": _row((74.53, 0.38), (85.75, 0.23), (79.59, 0.37), (92.29, 0.07)),
        "APPNP": _row((75.48, 0.29), (85.07, 0.25), (79.61, 0.33), (93.31, 0.08)),
        # Marked # in Table 5: as APPNP's own paper reports it, with dropout on the edges.
        "APPNP#": _row((75.73, 0.30), (85.09, 0.25), (79.73, 0.31), (93.27, 0.08)),
        "APPNP-noa-nof": _row((72.71, 0.55), (78.51, 0.46), (77.18, 0.53), (90.18, 0.23)),
        "APPNP-noe": _row((70.98, 0.34), (77.74, 0.27), (74.80, 0.43), (89.85, 0.09)),
        "PTS": _row((75.58, 0.25), (85.02, 0.24), (79.67, 0.28), (92.76, 0.10)),
        "PTA": _row((75.98, 0.24), (85.90, 0.21), (79.89, 0.31), (93.64, 0.08)),
        "PTA(F)": _row((75.51, 0.24), (85.73, 0.22), (79.45, 0.40), (93.62, 0.08)),
    }
)
"""Tables 4, 5 and 8: accuracy of a method on a data set."""

P_VALUES = MappingProxyType(_numbers(5.56e-4, 1.81e-9, 1.09e-2, 1.57e-8))
"""Table 5: paired t-test of PTA against APPNP."""

MS_PER_EPOCH = MappingProxyType(
    {
        "APPNP": _numbers(34.73, 28.60, 34.98, 30.51),
        "PTA": _numbers(3.33, 3.35, 3.27, 3.33),
    }
)
"""Table 6, on a 2080 Ti."""

TOTAL_SECONDS = MappingProxyType(
    {
        "APPNP": _numbers(52.75, 75.30, 49.39, 134.23),
        "PTA": _numbers(10.14, 11.95, 10.59, 17.12),
        "PTA(F)": _numbers(1.19, 1.25, 1.40, 3.92),
    }
)
"""Table 7, on a 2080 Ti."""

STATISTICS = MappingProxyType(
    {
        "citeseer": (2110, 3668, 3703, 6),
        "cora_ml": (2810, 7981, 2879, 7),
        "pubmed": (19717, 44324, 500, 3),
        "ms_academic": (18333, 81894, 6805, 15),
    }
)
"""Table 2: nodes, edges, features and classes."""

CHARACTERISTICS = MappingProxyType(
    {
        "MLP": (False, False, False, False),
        "APPNP-noa-nof": (True, False, False, True),
        "PTS": (True, True, False, True),
        "APPNP-noe": (True, True, True, False),
        "APPNP": (True, True, True, True),
    }
)
"""Table 3: pseudo-labels, graph-based weighting, model-based weighting, ensemble."""
