"""proptrain verify: the paper's identities on a named data set."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from proptrain.cli.console import JsonOption, print_json, print_table
from proptrain.cli.data import DataDirOption

if TYPE_CHECKING:
    from proptrain.insight.identities import Identity

NameArgument = Annotated[str, typer.Argument(help="A named data set (see `proptrain data list`).")]
AlphaOption = Annotated[
    float | None, typer.Option(help="Weight of the restart. \\[default: the paper's for the set]")
]
StepsOption = Annotated[int, typer.Option(min=0, help="Number of propagation steps.")]
SeedOption = Annotated[
    int | None,
    typer.Option(
        min=0,
        max=2**32 - 1,
        help="Seed of the split and of the network's weights. \\[default: the paper's first]",
    ),
]


def verify(
    name: NameArgument = "cora",
    alpha: AlphaOption = None,
    steps: StepsOption = 10,
    seed: SeedOption = None,
    data_dir: DataDirOption = None,
    json: JsonOption = False,
) -> None:
    """Check what the paper proves on a real graph: the identities, one row each.

    Both sides of each statement are computed, in double precision, and compared; deviations are
    relative to the largest number. The exit code is 1 if a statement does not hold.

    Examples: proptrain verify; proptrain verify cora_ml --alpha 0.2 --steps 2
    """
    from proptrain.data.catalog import CATALOG, load_dataset
    from proptrain.data.splits import TEST_SEEDS
    from proptrain.insight.identities import verify_identities

    dataset = load_dataset(name, data_dir)
    entry = CATALOG[name]
    alpha = entry.alpha if alpha is None else alpha
    seed = TEST_SEEDS[0] if seed is None else seed
    identities = verify_identities(
        dataset, alpha=alpha, steps=steps, seed=seed, n_known=entry.n_known
    )
    holds = all(identity.holds for identity in identities)
    if json:
        told = [{**asdict(identity), "holds": identity.holds} for identity in identities]
        settings = {"dataset": name, "alpha": alpha, "steps": steps, "seed": seed}
        print_json({**settings, "holds": holds, "identities": told})
    else:
        _show(f"{name}, alpha {alpha:g}, {steps} steps, seed {seed}", identities)
    if not holds:
        raise typer.Exit(1)


def _show(setting: str, identities: list[Identity]) -> None:
    rows = [
        [
            identity.statement,
            identity.place,
            f"{identity.deviation:.1e}",
            f"{'>' if identity.is_inequality else '≤'} {identity.bound:g}",
            "yes" if identity.holds else "NO",
        ]
        for identity in identities
    ]
    columns = ["statement", "in the paper", "deviation", "bound", "holds"]
    print_table(f"{setting}: what the paper proves, and the largest deviations", columns, rows)
