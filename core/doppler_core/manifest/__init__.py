"""The model manifests as pure, typed data."""

from doppler_core.manifest.load import load_manifest, manifest_json, manifest_text
from doppler_core.manifest.model import Manifest
from doppler_core.manifest.resolve import Resolution, Resolved, resolve

__all__ = ["Manifest", "Resolution", "Resolved", "load_manifest", "manifest_json", "manifest_text", "resolve"]
