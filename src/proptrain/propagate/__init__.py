"""Step 1 and its operator: schemes, normalisation, engines, label propagation."""
