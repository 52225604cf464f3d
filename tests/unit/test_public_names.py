"""What the package shows to the world, and how little it does before it is asked."""

from __future__ import annotations

import importlib
import inspect
import subprocess
import sys

import pytest

import proptrain

NAMES = [
    "Adaptive",
    "AddSoftLabels",
    "BlockedEngine",
    "CorrectAndSmoothClassifier",
    "Dataset",
    "DiskGraph",
    "EdgeCounts",
    "Engine",
    "Exact",
    "FitSizes",
    "GNNClassifier",
    "Graph",
    "Heat",
    "History",
    "LabelFolds",
    "LabelPropagationClassifier",
    "LocalEngine",
    "Mean",
    "NodeClassifier",
    "PPR",
    "PTAClassifier",
    "PTAPlusClassifier",
    "PTLoss",
    "Power",
    "Split",
    "StoppingNodes",
    "TrainSettings",
    "Trained",
    "__version__",
    "as_graph",
    "build_graph",
    "coefficients",
    "dataset_from_pyg",
    "dataset_to_pyg",
    "dynamic",
    "encode_labels",
    "ensemble_predictions",
    "estimate_fit",
    "extend_graph",
    "fit_from_disk",
    "graph_from_edges",
    "knn_graph",
    "largest_component",
    "load_dataset",
    "load_model",
    "noise_rate",
    "normalise",
    "predict_probabilities",
    "propagate_labels",
    "read_npz",
    "read_tables",
    "save_graph",
    "save_model",
    "split_nodes",
    "static",
    "train_predictor",
    "with_label_noise",
    "with_structure_noise",
    "write_npz",
]
HEAVY = {"torch", "pandas", "sklearn", "numba", "scipy", "numpy", "matplotlib", "pyarrow"}


def test_all_is_exactly_these_names():
    assert sorted(proptrain.__all__) == NAMES
    assert dir(proptrain) == NAMES
    assert len(set(proptrain.__all__)) == len(proptrain.__all__)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "__version__"])
def test_each_name_is_there_and_explains_itself(name):
    importlib.import_module("proptrain.estimator")  # which imports nearly everything
    value = getattr(proptrain, name)
    assert value is getattr(proptrain, name)
    if not isinstance(value, type) and not inspect.isfunction(value):
        assert callable(value)  # static and dynamic are values of a documented class
        value = type(value)
    first = inspect.getdoc(value).split("\n\n")[0]
    assert first.endswith((".", "::"))
    assert not first.startswith(f"{name}(")  # what a dataclass writes when nobody else does
    assert value.__module__.startswith("proptrain.")
    assert ">>>" in inspect.getdoc(value)  # an example, which pytest runs


def test_star_import_brings_them_all():
    found = {}
    exec("from proptrain import *", found)
    assert set(NAMES) <= set(found)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'proptrain' has no attribute 'PTAClasifier'"):
        _ = proptrain.PTAClasifier
    assert not hasattr(proptrain, "_HOMES")
    with pytest.raises(ImportError, match="cannot import name 'nothing'"):
        exec("from proptrain import nothing")


def modules_after(code):
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_import_is_light():
    assert modules_after("import proptrain; proptrain.__version__; dir(proptrain)") & HEAVY == set()


def test_help_is_light():
    code = """
import contextlib, io, sys
import proptrain.cli
for words in (["--help"], ["fit", "--help"], ["data", "--help"]):
    sys.argv = ["proptrain", *words]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
        proptrain.cli.main()
"""
    loaded = modules_after(code)
    assert "typer" in loaded
    assert loaded & (HEAVY - {"numpy"}) == set()
