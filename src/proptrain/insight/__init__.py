"""What the label-propagation view of a graph network can tell."""
