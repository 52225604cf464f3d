"""What flows in: graphs, features, labels, splits, and where they come from."""
