"""The commands that generate text, on a model that says what a test tells it to."""
