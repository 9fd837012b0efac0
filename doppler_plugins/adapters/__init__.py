"""What the framework adapters share: constructor words, options, and the way to the engine. It knows no framework."""

__all__: list[str] = []
