"""The paper's protocol: runs, seeds, statistics."""
