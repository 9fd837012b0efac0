#!/bin/sh
# Embed every text file of a folder from the command line, then find the ones nearest to a question.
#
#   examples/embed_folder.sh FOLDER "A question?" [MODEL]
# Needs `doppler-plugins` and `python` on the path: `. .venv/bin/activate` in a checkout.
set -eu

usage="usage: $0 FOLDER QUESTION [MODEL]"
folder=${1:?$usage}
question=${2:?$usage}
model=${3:-demo-embedding}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

doppler-plugins embed "$model" --file "$folder" --out "$work/documents.jsonl"
doppler-plugins embed "$model" --query "$question" --out "$work/question.jsonl"

# The vectors have unit length, so a dot product is the cosine.
python - "$work/documents.jsonl" "$work/question.jsonl" <<'PYTHON'
import json, sys
documents, (question,) = ([json.loads(line) for line in open(path)] for path in sys.argv[1:])
cosine = lambda row: sum(a * b for a, b in zip(row["vector"], question["vector"]))
for row in sorted(documents, key=cosine, reverse=True)[:3]:
    print(f"{cosine(row):.3f}  {row['source']}")
PYTHON
