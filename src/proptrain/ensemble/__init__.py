"""Step 3: predictions over the graph."""
