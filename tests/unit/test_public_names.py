"""What the package shows to the world, and how little it does before it is asked."""

from __future__ import annotations

import importlib
import inspect
import re
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


# --- methods have an example, arrays a shape -----------------------------------------------------

ARRAYS = {"X", "y", "codes", "features", "known", "labels", "probabilities", "signal", "values"}
ARRAYS |= {"scores", "soft_labels"}
SHAPE = re.compile(r"\([a-zA-Z]\w*, ?\w*\)")  # (n,), (n, C), (m, f)


def public_methods(kind):
    """The methods that are ours, not scikit-learn's or torch's, by their names."""
    for name in dir(kind):
        method = inspect.getattr_static(kind, name)
        method = getattr(method, "__func__", method)  # of a classmethod
        is_ours = inspect.isfunction(method) and method.__module__.startswith("proptrain")
        if is_ours and not name.startswith("_"):
            yield name, method


def has_example(name, method, kind):
    """Whether a method is called in an example: one of its own, or one of its class."""
    text = f"{inspect.getdoc(method)}\n{kind.__doc__}"
    examples = [line for line in text.splitlines() if line.lstrip().startswith((">>>", "..."))]
    return any(re.search(rf"\.{name}\(", line) for line in examples)


def says_shapes(function):
    """Whether a docstring has a shape, if there is an array among the arguments."""
    has_arrays = bool(ARRAYS & set(inspect.signature(function).parameters))
    return not has_arrays or bool(SHAPE.search(inspect.getdoc(function)))


def public_values():
    return [getattr(proptrain, name) for name in NAMES if name != "__version__"]


def test_every_public_method_has_an_example():
    kinds = [value for value in public_values() if isinstance(value, type)]
    methods = [(name, method, kind) for kind in kinds for name, method in public_methods(kind)]
    assert len({method for _, method, _ in methods}) > 30
    assert {one[1].__qualname__ for one in methods if not has_example(*one)} == set()


def test_the_engine_that_needs_an_extra_has_an_example_that_is_not_run():
    pytest.importorskip("ray")
    from proptrain.on_ray import RayEngine

    assert has_example("propagate", RayEngine.propagate, RayEngine)
    assert "doctest: +SKIP" in RayEngine.__doc__


def test_every_array_has_a_shape():
    values = public_values()
    functions = [value for value in values if inspect.isfunction(value)]
    kinds = [value for value in values if isinstance(value, type)]
    functions += [method for kind in kinds for _, method in public_methods(kind)]
    assert {one.__qualname__ for one in functions if not says_shapes(one)} == set()
    for converter in (proptrain.dataset_from_pyg, proptrain.dataset_to_pyg):  # of a whole Data
        assert SHAPE.search(inspect.getdoc(converter))


def test_what_has_no_example_or_no_shape_is_found():
    class Wrong:
        """It has an example of something else.

        >>> Wrong().predict_all(1)
        """

        def predict(self, X):
            """Return X, whatever its shape (is)."""

        def predict_all(self, X):
            """Return X (n, f)."""

    assert not has_example("predict", Wrong.predict, Wrong)
    assert not says_shapes(Wrong.predict)
    assert has_example("predict_all", Wrong.predict_all, Wrong)
    assert says_shapes(Wrong.predict_all)


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
