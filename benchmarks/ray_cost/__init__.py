"""What Ray itself costs, beside the engines of one machine, at three sizes."""
