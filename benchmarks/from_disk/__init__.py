"""A graph that needs more memory than there is, learned from disk, and beside it in memory."""
