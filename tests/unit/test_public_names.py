"""What the package shows to the world, and how little it does before it is asked."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import subprocess
import sys
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

import proptrain
from proptrain.data import splits

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
    explains_itself(value, name)


def test_each_name_of_the_reference_explains_itself():
    for name in names_of_the_reference():
        explains_itself(value_of(name), name.rpartition(".")[2])


def explains_itself(value, name):
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
ARRAYS |= {"node_ids", "order", "scores", "shape", "soft_labels"}
"""Arguments that are arrays and may be of any type, since `fit` takes what its user has."""
ARRAY_TYPE = re.compile(r"ndarray|NDArray|csr_array|Tensor")
SHAPE = re.compile(r"\([a-zA-Z]\w*(\+1)?, ?\w*\)")  # (n,), (n, C), (K+1,)
FORMULA = re.compile(r"\S (=|∝|<-) \S|Σ")
ROOT = Path(__file__).parents[2]


def has_equation(value):
    """Whether a docstring has an equation; assignments in its examples are none."""
    lines = inspect.getdoc(value).splitlines()
    told = [line for line in lines if not line.lstrip().startswith((">>>", "..."))]
    return bool(FORMULA.search("\n".join(told)))


def public_methods(kind):
    """The methods that are ours, not scikit-learn's or torch's, by their names."""
    for name in dir(kind):
        method = inspect.getattr_static(kind, name)
        method = getattr(method, "__func__", method)  # of a classmethod
        is_ours = inspect.isfunction(method) and method.__module__.startswith("proptrain")
        if is_ours and not name.startswith("_"):
            yield name, method


def public_properties(kind):
    """The functions behind the properties that are ours, by their names."""
    for name in dir(kind):
        value = inspect.getattr_static(kind, name)
        is_ours = isinstance(value, property) and value.fget.__module__.startswith("proptrain")
        if is_ours and not name.startswith("_"):
            yield name, value.fget


def has_example(name, method, kind, after=r"\("):
    """Whether a method is called in an example: one of its own, or one of its class."""
    text = f"{inspect.getdoc(method)}\n{kind.__doc__}"
    examples = [line for line in text.splitlines() if line.lstrip().startswith((">>>", "..."))]
    return any(re.search(rf"\.{name}{after}", line) for line in examples)


def is_of_arrays(annotation, module):
    """Whether a type is one of arrays, by its text or by what a name in it stands for there."""
    names = re.findall(r"[A-Za-z_]\w*", str(annotation))
    told = [str(annotation), *(str(getattr(module, name, "")) for name in names)]
    return any(ARRAY_TYPE.search(one) and "Callable" not in one for one in told)


def says_shapes(function):
    """Whether a docstring has a shape, if there is an array among the arguments or returned."""
    signature, module = inspect.signature(function), sys.modules[function.__module__]
    types = [one.annotation for one in signature.parameters.values()]
    has_arrays = bool(ARRAYS & set(signature.parameters)) or any(
        is_of_arrays(one, module) for one in (*types, signature.return_annotation)
    )
    return not has_arrays or bool(SHAPE.search(inspect.getdoc(function)))


def holds_arrays(kind):
    """Whether an object has arrays among its fields."""
    module = sys.modules[kind.__module__]
    return is_dataclass(kind) and any(is_of_arrays(one.type, module) for one in fields(kind))


def names_of_the_reference():
    """All that docs/api.md shows but the module of errors, by full names."""
    text = (ROOT / "docs/api.md").read_text(encoding="utf-8")
    names = re.findall(r"^::: ([\w.]+)", text, re.MULTILINE)
    has_ray = importlib.util.find_spec("ray") is not None
    return [name for name in names if name[-7:] != ".errors" and (has_ray or "on_ray" not in name)]


def value_of(full_name):
    home, _, name = full_name.rpartition(".")
    return getattr(importlib.import_module(home), name)


def public_values():
    """What is public: what is imported from `proptrain`, and what its reference shows beside."""
    from_here = [getattr(proptrain, name) for name in NAMES if name != "__version__"]
    others = [value_of(name) for name in names_of_the_reference()]
    return [*from_here, *(value for value in others if value not in from_here)]


def public_kinds():
    return [value for value in public_values() if isinstance(value, type)]


def test_the_reference_shows_more_than_what_is_imported_from_the_package():
    shown = {name.rpartition(".")[2] for name in names_of_the_reference()}
    assert set(NAMES) - shown == {"__version__"}
    others = {"Audit", "Explanation", "GraphClassifier"}
    assert shown - set(NAMES) - {"RayEngine"} == others  # which needs an extra


def test_every_public_method_has_an_example():
    kinds = public_kinds()
    methods = [(name, method, kind) for kind in kinds for name, method in public_methods(kind)]
    assert len({method for _, method, _ in methods}) > 30
    assert {"Audit.fixed", "GraphClassifier.save"} <= {one[1].__qualname__ for one in methods}
    assert {one[1].__qualname__ for one in methods if not has_example(*one)} == set()


def test_every_public_property_explains_itself_and_has_an_example():
    own = [(name, told, kind) for kind in public_kinds() for name, told in public_properties(kind)]
    assert {"Audit.judged", "Explanation.sums"} <= {one[1].__qualname__ for one in own}
    for _, told, _ in own:
        assert inspect.getdoc(told).split("\n\n")[0].endswith("."), told.__qualname__
        assert says_shapes(told), told.__qualname__
    assert {one[1].__qualname__ for one in own if not has_example(*one, after=r"\b")} == set()


def test_every_array_has_a_shape():
    functions = [value for value in public_values() if inspect.isfunction(value)]
    functions += [method for kind in public_kinds() for _, method in public_methods(kind)]
    assert {one.__qualname__ for one in functions if not says_shapes(one)} == set()
    whole = (proptrain.dataset_from_pyg, proptrain.dataset_to_pyg, proptrain.largest_component)
    for converter in whole:  # of a whole Data or Dataset
        assert SHAPE.search(inspect.getdoc(converter))


def test_every_object_that_holds_arrays_says_their_shapes():
    holding = [kind for kind in public_kinds() if holds_arrays(kind)]
    assert {proptrain.Graph, proptrain.Split, proptrain.Trained} <= set(holding)
    assert {kind.__name__ for kind in holding if not SHAPE.search(inspect.getdoc(kind))} == set()


# --- equations ------------------------------------------------------------------------------------


def equations():
    """The table's lines with an equation: the equation, and what is named beside it."""
    text = (ROOT / "docs/deviations.md").read_text(encoding="utf-8")
    table = text.partition("## From equation to function to test")[2].partition("\n## ")[0]
    lines = [line.strip("|").split("|") for line in table.splitlines() if line.startswith("| ")]
    for paper, functions, _ in lines:
        if re.search(r"[=ΣĀ]|f\(X\)", paper):
            yield paper.strip(), re.findall(r"`([^`]+)`", functions)


def named_in_docs(name, beside):
    """What a name of the table stands for; None for a command or a file that is no Python."""
    if " " in name or "/" in name:
        return None
    home, _, last = name.partition("(")[0].rpartition(".")
    if home in NAMES:  # of a method
        return getattr(getattr(proptrain, home), last)
    return getattr(importlib.import_module(f"proptrain.{home}" if home else beside), last)


def test_what_stands_beside_an_equation_has_one_in_its_docstring():
    found = {}
    for _, names in equations():
        beside = "proptrain"
        for name in names:
            value = named_in_docs(name, beside)
            if value is not None:
                beside = getattr(value, "__module__", beside)
                told = value if hasattr(value, "__name__") else type(value)  # static is a value
                found[name] = has_equation(told)
    assert {"LocalEngine.propagate", "dynamic", "ensemble.predictions.ensemble_predictions"} <= set(
        found
    )
    assert [name for name, has_one in found.items() if not has_one] == []


COMPUTED = {"Exact", "Heat", "Mean", "PPR", "Power", "coefficients", "ensemble_predictions"}
COMPUTED |= {"knn_graph", "noise_rate", "normalise", "predict_probabilities", "propagate_labels"}
COMPUTED |= {"PTAPlusClassifier", "with_label_noise", "with_structure_noise"}
"""What computes something, whether or not the table of the paper's equations names it."""


@pytest.mark.parametrize("name", sorted(COMPUTED))
def test_what_computes_something_has_its_equation(name):
    assert has_equation(getattr(proptrain, name))


def test_every_scheme_says_its_numbers():
    schemes = [kind for kind in public_kinds() if "mixing" in dict(public_properties(kind))]
    assert len(schemes) == 5
    for scheme in schemes:
        assert re.search(r"c_k = ", inspect.getdoc(scheme.mixing)), scheme


def test_what_has_no_example_or_no_shape_is_found():
    class Wrong:
        """It has an example of something else.

        >>> told = Wrong().predict_all(1)
        """

        def predict(self, X):
            """Return X, whatever its shape (is)."""

        def predict_all(self, X):
            """Return X (n, f)."""

        def tell(self, others: NDArray | None = None):  # noqa: F821
            """Tell others, however many."""

        @property
        def degrees(self) -> NDArray:  # noqa: F821
            """The degrees, whatever their shape."""

    assert not has_example("predict", Wrong.predict, Wrong)
    assert not says_shapes(Wrong.predict)
    assert not says_shapes(Wrong.tell)
    assert is_of_arrays("Codes | None", splits)  # which stands for an array there
    assert not is_of_arrays("Codes | Tell", proptrain)
    assert not is_of_arrays("Tell", splits)  # takes arrays, and is none
    assert has_example("predict_all", Wrong.predict_all, Wrong)
    assert says_shapes(Wrong.predict_all)
    assert [name for name, _ in public_properties(Wrong)] == []  # not ours
    assert not has_example("degrees", Wrong.degrees, Wrong, after=r"\b")
    assert not says_shapes(Wrong.degrees.fget)
    assert not has_equation(Wrong)
    assert not FORMULA.search("Ā times a signal (n, c), epsilon=5")


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
