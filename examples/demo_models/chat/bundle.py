"""Make the artifact that the package carries: the checkpoint converted, its chat format switched on.

    python bundle.py CHECKPOINT_FOLDER [NAME TEMPLATE]

The shipped manifests for Gemma 4's models leave the chat format to a checkpoint's own template; a demo model has none.
"""

import json
import sys
import tempfile
from pathlib import Path

from doppler_core.settings import data_dir
from doppler_plugins.cli import program


def main(checkpoint: Path, name: str = "demo-chat", template: str = "gemma4-text") -> int:
    manifest = json.loads((data_dir("manifests") / "templates" / f"{template}.json").read_text("utf-8"))
    manifest["output"]["modelBaseId"] = f"{name}-f16"
    manifest["inference"]["chatTemplate"]["enabled"] = True
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.json"
        path.write_text(json.dumps(manifest), "utf-8")
        out = data_dir("models") / name
        return program.run(
            ["convert", str(checkpoint), "--manifest", str(path), "--out", str(out), "--force"]
        )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
