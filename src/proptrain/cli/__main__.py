"""python -m proptrain.cli."""

from proptrain.cli import main

main()
