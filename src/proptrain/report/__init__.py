"""The HTML page and its plots."""
