"""The model of cost: its counts are those of the engine, and prices are found again."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from benchmarks.cost_model import (
    Cluster,
    Constants,
    Size,
    cpu_seconds,
    exchanged_bytes,
    fit_constants,
    memory_bytes,
    network_bytes,
    seconds,
    widest,
)

from proptrain.data.disk_writer import save_graph
from proptrain.data.graph import Graph
from proptrain.data.shared_graph import SharedGraph
from proptrain.propagate.exchange import share_of


def test_needed_rows_are_those_of_a_graph_whose_edges_lead_anywhere(tmp_path):
    random = np.random.RandomState(0)
    pairs = random.randint(0, 4000, (2, 6000))
    matrix = sp.coo_array((np.ones(6000), tuple(pairs)), shape=(4000, 4000)).tocsr()
    matrix = ((matrix + matrix.T) > 0).astype(float)
    matrix.setdiag(0)
    matrix.eliminate_zeros()
    save_graph(Graph(sp.csr_array(matrix)), tmp_path / "g", n_blocks=4)
    graph = SharedGraph(tmp_path / "g")
    needed = [share_of(graph.block(b), graph.bounds, "symmetric")[0].n_needed for b in range(4)]
    size = Size(4000, graph.manifest.n_entries, 8)
    assert exchanged_bytes(size, 4) == pytest.approx(sum(needed) * 8 * 4, rel=0.03)


def test_prices_are_found_again():
    wanted, lines = Constants(2e-10, 5e-10, 3e-3), []
    for nodes, entries in ((10**4, 10**5), (10**6, 2 * 10**7), (10**6, 10**8), (10**5, 10**6)):
        size = Size(nodes, entries, 16)
        told = {"nodes": nodes, "stored": entries, "columns": 16, "blocks": 4, "engine": "ray"}
        lines.append({**told, "cpu_seconds": cpu_seconds(size, 4, 1, wanted)})
    found = fit_constants(lines)
    assert vars(found) == pytest.approx(vars(wanted), rel=1e-3)


def test_more_machines_need_less_each():
    size, prices = Size(10**7, 3 * 10**8, 100), Constants(1e-8, 1e-10, 1e-3)
    told = [memory_bytes(size, m, 8) for m in (2, 8, 32)]
    assert told == sorted(told, reverse=True)
    assert network_bytes(size, 1) == 0
    assert widest(size, Cluster(1, memory=10**9)) is None
    assert widest(size, Cluster(64, memory=10**11)) == 64
    assert seconds(size, Cluster(32), 8, prices) < seconds(size, Cluster(2), 8, prices)
