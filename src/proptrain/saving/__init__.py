"""Fitted models as folders of plain arrays and JSON: nothing is ever pickled."""
