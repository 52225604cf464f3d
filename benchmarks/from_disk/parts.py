"""One part of the work by one engine, in a process of its own.

The same functions as a fit calls, in the same order and with the same random numbers, so that the
parts come to what the whole fit comes to. Each part leaves in a folder what the next one needs.
Times begin when a part has what it would find in memory if there were one process for all parts:
nothing from disk, and in memory the graph and whatever else was made there before.
"""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Protocol

import numpy as np
import typer
from numpy.typing import NDArray

from proptrain import PTAClassifier, fit_from_disk, graph_from_edges
from proptrain.data.disk import DiskGraph
from proptrain.data.disk_build import Nodes, build_graph
from proptrain.data.graph import Graph
from proptrain.data.mapped import forget, parts_of, write_rows
from proptrain.data.synthetic_disk import write_synthetic
from proptrain.ensemble.predictions import ensemble_predictions, spread_or_own
from proptrain.large.from_disk import predict_from_disk
from proptrain.problem import label_roles
from proptrain.propagate.blocked import BlockedEngine
from proptrain.propagate.engine import Engine, LocalEngine
from proptrain.propagate.labels import propagate_labels
from proptrain.propagate.schemes import Scheme
from proptrain.system.memory import peak_memory
from proptrain.train.loop import predict_probabilities, train_predictor
from proptrain.train.predictor import Weights
from proptrain.train.stopping import StoppingNodes

PARTS = ("build", "propagate", "train", "predict", "fit")
"""The last one is propagate, train and predict in one process, as users have them."""
ENGINES = ("disk, limited", "memory", "memory, limited")
"""In this order: what the engine in memory leaves, it has under the limit too."""
BATCH = 131_072
"""What a limit of 2 GB makes of it for 100 features and 47 classes; the same for both engines."""
_EDGES = "edges.parquet"


@dataclass(frozen=True)
class Job:
    """Where the problem lies, and how it is fitted."""

    folder: Path
    memory: str
    epochs: int

    @property
    def classifier(self) -> PTAClassifier:
        """A new classifier: PTA(F), since PTA judges every epoch by the whole graph."""
        how: dict[str, Any] = {"fast": True, "max_epochs": self.epochs, "batch_size": BATCH}
        return PTAClassifier(random_state=0, device="cpu", **how)

    @property
    def scheme(self) -> Scheme:
        """K = 10 steps of personalised PageRank."""
        scheme: Scheme = self.classifier._scheme()
        return scheme

    @cached_property
    def roles(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], int]:
        """Class codes, the nodes that train, those that stop, and the seed: as a fit has them."""
        random, new = np.random.RandomState(0), self.classifier
        posing = {"stopping_fraction": new.stopping_fraction, "unlabelled": new.unlabelled}
        codes, _, train, stop = label_roles(self.labels, None, random=random, **posing)
        return codes, train, stop, random.randint(2**31 - 1)

    @property
    def labels(self) -> NDArray[np.int64]:
        """The labels that are known, -1 elsewhere."""
        return np.asarray(np.load(self.folder / "big" / "labels.npy"))

    @property
    def features(self) -> NDArray[np.float32]:
        """The features, mapped."""
        return np.asanyarray(np.load(self.folder / "big" / "features.npy", mmap_mode="r"))

    @property
    def graph(self) -> DiskGraph:
        """The graph that was built."""
        return DiskGraph(self.folder / "built")

    def right(self, distributions: NDArray[Any]) -> float:
        """Return the share of nodes without a label that are told right."""
        truth = np.load(self.folder / "big" / "truth.npy")
        is_right = np.zeros(len(truth), dtype=bool)
        for rows in parts_of(len(truth), 4 * distributions.shape[1]):
            is_right[rows] = distributions[rows].argmax(axis=1) == truth[rows]
            forget(distributions)
        return float(is_right[self.labels < 0].mean())


def make(folder: Path, sizes: tuple[int, int, int, int], memory: str) -> dict[str, Any]:
    """Make up a problem on disk, and write its edges, each once, as an edge list in Parquet."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    nodes, edges, classes, features = sizes
    big = folder / "big"
    graph = write_synthetic(big, nodes, edges, classes, n_features=features, memory=memory)
    schema = pa.schema([("source", pa.int64()), ("target", pa.int64())])
    with pq.ParquetWriter(folder / _EDGES, schema) as writer:
        for block in graph.parts(1 << 22):
            entries = slice(int(block.indptr[0]), int(block.indptr[-1]))
            rows = np.repeat(np.arange(block.rows.start, block.rows.stop), np.diff(block.indptr))
            columns = block.indices[entries].astype(np.int64)
            once = rows < columns
            batch = [pa.array(rows[once]), pa.array(columns[once])]
            writer.write_table(pa.table(batch, schema=schema))
    return {"entries": graph.manifest.n_entries}


class Engines(Protocol):
    """All parts by one engine; each returns how long it took, and what else there is to tell."""

    def build(self) -> dict[str, Any]:
        """Make a graph of the edge list."""
        ...

    def propagate(self) -> dict[str, Any]:
        """Propagate the labels that train, and those that stop."""
        ...

    def train(self) -> dict[str, Any]:
        """Train on the soft labels."""
        ...

    def predict(self) -> dict[str, Any]:
        """Have all nodes told by the network, and that propagated."""
        ...

    def fit(self) -> dict[str, Any]:
        """Do the last three in one process, as users have them."""
        ...


@dataclass(frozen=True)
class OnDisk:
    """Everything in files, within the limit."""

    job: Job

    def build(self) -> dict[str, Any]:
        """Sort the edge list into a folder."""
        job, built = self.job, self.job.folder / "built"
        shutil.rmtree(built, ignore_errors=True)  # or an interrupted one would only be finished
        start = time.perf_counter()
        nodes = Nodes(len(job.labels))
        made = build_graph([job.folder / _EDGES], built, memory=job.memory, nodes=nodes)
        return {"seconds": time.perf_counter() - start, "entries": made.manifest.n_entries}

    def propagate(self) -> dict[str, Any]:
        """Propagate from the folder, to files."""
        start = time.perf_counter()
        engine = self._engine()
        for name, soft_labels in _spread(self.job, engine, room=engine.room):
            _keep(self._file(f"{name}.npy"), soft_labels)
        return {"seconds": time.perf_counter() - start}

    def train(self) -> dict[str, Any]:
        """Train on what lies in files, a batch at a time."""
        start = time.perf_counter()
        weights = _train(self.job, self.job.features, *map(self._mapped, ("soft", "stop")))
        np.savez(self._file("weights.npz"), **weights)  # type: ignore[arg-type]
        return {"seconds": time.perf_counter() - start}

    def predict(self) -> dict[str, Any]:
        """Predict from files to a file."""
        start = time.perf_counter()
        weights, engine = _weights(self._file("weights.npz")), self._engine()
        told = predict_from_disk(weights, self.job.features, engine, self.job.scheme)
        return {"seconds": time.perf_counter() - start, "right": self.job.right(told)}

    def fit(self) -> dict[str, Any]:
        """Fit from disk."""
        job, start = self.job, time.perf_counter()
        given = (job.classifier, job.graph, job.features, job.labels)
        fitted = fit_from_disk(*given, memory=job.memory, scratch=job.folder)
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "right": job.right(fitted.distributions)}

    def _engine(self) -> BlockedEngine:
        return BlockedEngine(self.job.graph, memory=self.job.memory, scratch=self.job.folder)

    def _file(self, name: str) -> Path:
        return self.job.folder / f"disk-{name}"

    def _mapped(self, name: str) -> NDArray[np.float32]:
        return np.asanyarray(np.load(self._file(f"{name}.npy"), mmap_mode="r"))


@dataclass(frozen=True)
class InMemory:
    """Everything in memory, however much that is."""

    job: Job

    def build(self) -> dict[str, Any]:
        """Read the edge list and make a graph of it."""
        import pyarrow.parquet as pq

        start = time.perf_counter()
        table = pq.read_table(self.job.folder / _EDGES)
        pairs = np.stack([column.to_numpy() for column in table.columns], axis=1)
        del table
        made = graph_from_edges(pairs, len(self.job.labels))
        return {"seconds": time.perf_counter() - start, "entries": 2 * made.n_edges}

    def propagate(self) -> dict[str, Any]:
        """Propagate over the graph in memory."""
        graph = self._graph()
        start = time.perf_counter()
        told = dict(_spread(self.job, LocalEngine(graph)))
        seconds = time.perf_counter() - start
        for name, soft_labels in told.items():
            np.save(self._file(f"{name}.npy"), soft_labels)
        return {"seconds": seconds}

    def train(self) -> dict[str, Any]:
        """Read the features, and train."""
        soft_labels, stop_labels = (np.load(self._file(f"{name}.npy")) for name in ("soft", "stop"))
        start = time.perf_counter()
        weights = _train(self.job, np.array(self.job.features), soft_labels, stop_labels)
        seconds = time.perf_counter() - start
        np.savez(self._file("weights.npz"), **weights)  # type: ignore[arg-type]
        return {"seconds": seconds}

    def predict(self) -> dict[str, Any]:
        """Predict over the graph in memory."""
        engine, features = LocalEngine(self._graph()), np.array(self.job.features)
        weights = _weights(self._file("weights.npz"))
        start = time.perf_counter()
        own = predict_probabilities(weights, features)
        told = spread_or_own(ensemble_predictions(own, engine, self.job.scheme), own)
        return {"seconds": time.perf_counter() - start, "right": self.job.right(told)}

    def fit(self) -> dict[str, Any]:
        """Read everything, and fit."""
        job, start = self.job, time.perf_counter()
        graph, features = self._graph(), np.array(job.features)
        fitted = job.classifier.fit(features, job.labels, graph=graph)
        seconds = time.perf_counter() - start
        return {"seconds": seconds, "right": job.right(fitted.label_distributions_)}

    def _graph(self) -> Graph:
        return self.job.graph.to_graph()

    def _file(self, name: str) -> Path:
        return self.job.folder / f"memory-{name}"


def _spread(job: Job, engine: Engine, **how: Any) -> Any:
    """Yield soft labels (n, C): of those that train, and of those that stop."""
    codes, train, stop, _ = job.roles
    n_classes, clamp = int(codes.max()) + 1, job.classifier.clamp
    for name, known in (("soft", train), ("stop", stop)):
        yield (
            name,
            propagate_labels(codes, known, n_classes, engine, job.scheme, clamp=clamp, **how),
        )


def _train(job: Job, features: Any, soft_labels: Any, stop_labels: Any) -> Weights:
    codes, _, stop, seed = job.roles
    new = job.classifier
    return train_predictor(
        features,
        soft_labels,
        StoppingNodes(stop, codes[stop], stop_labels),
        weighting=new._weighting(),
        settings=new._settings(new.loss_weight),
        seed=seed,
        batch_size=BATCH,
    ).weights


def _keep(path: Path, matrix: NDArray[np.float32]) -> None:
    """Write a matrix that may lie in a file without a name."""
    rows = parts_of(len(matrix), matrix.shape[1] * matrix.itemsize)
    write_rows(path, matrix.shape, matrix.dtype, (matrix[r] for r in rows))


def _weights(path: Path) -> Weights:
    with np.load(path) as kept:
        return dict(kept)


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    part: str,
    engine: str,
    folder: Path,
    memory: str,
    epochs: int,
    sizes: Annotated[str, typer.Option(help="Nodes, edges, classes and features.")] = "",
) -> None:
    """Carry out one part and print what it told, as JSON."""
    if part == "make":
        nodes, edges, classes, features = map(int, sizes.split(","))
        told = make(folder, (nodes, edges, classes, features), memory)
    else:
        job = Job(folder, memory, epochs)
        by: Engines = OnDisk(job) if engine == "disk" else InMemory(job)
        told = getattr(by, part)()
    typer.echo(json.dumps({**told, "peak_memory": peak_memory()}))


if __name__ == "__main__":
    app()
