"""The model manifests as pure, typed data."""
