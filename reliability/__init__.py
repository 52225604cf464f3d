"""Bad input, faults and load, tried on purpose: each script writes what happened as JSON lines."""
