"""Weights in files: checkpoints as their publishers ship them, artifacts as `convert` writes them."""
