"""How fast it is, on the machine it runs on: everything side by side, told as ratios."""
