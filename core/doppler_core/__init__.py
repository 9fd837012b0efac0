"""The engine: manifests, weights, plans, devices. It knows no framework and no plugin system."""
