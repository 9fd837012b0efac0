"""The built-in model types, found through the entry points `doppler_plugins.model_types` and imported when used."""

__all__: list[str] = []
