"""Make the artifact that the package carries: the checkpoint converted, its chat format switched on.

    python bundle.py CHECKPOINT_FOLDER

The shipped manifest for Gemma 4's text models leaves the chat format to a checkpoint's own template; this one has none.
"""

import json
import sys
import tempfile
from pathlib import Path

from doppler_core.settings import data_dir
from doppler_plugins.cli import program

NAME = "demo-chat"


def main(checkpoint: Path) -> int:
    manifest = json.loads((data_dir("manifests") / "templates" / "gemma4-text.json").read_text("utf-8"))
    manifest["output"]["modelBaseId"] = f"{NAME}-f16"
    manifest["inference"]["chatTemplate"]["enabled"] = True
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{NAME}.json"
        path.write_text(json.dumps(manifest), "utf-8")
        out = data_dir("models") / NAME
        return program.run(
            ["convert", str(checkpoint), "--manifest", str(path), "--out", str(out), "--force"]
        )


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
