"""Step 2: predictor, weightings, loss, the one epoch loop, early stopping. No graph in here."""
