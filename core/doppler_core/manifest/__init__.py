"""The model manifests as pure, typed data."""

from doppler_core.manifest.load import load_manifest, manifest_json, manifest_text
from doppler_core.manifest.model import Manifest

__all__ = ["Manifest", "load_manifest", "manifest_json", "manifest_text"]
