"""Weight files for tests: safetensors bytes, and a small sentence-transformers checkpoint folder."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

DTYPES = {"float32": "F32", "float16": "F16", "int64": "I64", "uint16": "BF16"}


def header_and_data(tensors: Mapping[str, np.ndarray]) -> tuple[dict[str, Any], bytes]:
    """The header object and the data of a safetensors file; uint16 arrays are taken as BF16 bits."""
    header: dict[str, Any] = {}
    data = b""
    for name, values in tensors.items():
        raw = values.tobytes()
        header[name] = {
            "dtype": DTYPES[values.dtype.name],
            "shape": list(values.shape),
            "data_offsets": [len(data), len(data) + len(raw)],
        }
        data += raw
    return header, data


def file_bytes(header: object, data: bytes) -> bytes:
    """A safetensors file of any header, right or wrong."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def write_safetensors(path: Path, tensors: Mapping[str, np.ndarray]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(file_bytes(*header_and_data(tensors)))
    return path
