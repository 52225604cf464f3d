"""The three steps on a graph that does not fit into memory: from disk, and on a cluster."""
