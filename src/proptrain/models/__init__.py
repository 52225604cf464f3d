"""The other systems of the paper, made of the same parts."""
