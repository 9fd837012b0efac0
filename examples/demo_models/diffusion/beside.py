"""Puts the chat model's scripts behind these on the path: both models share their tokenizer, wire format, norms and
training.

Only names that stand in one of the two folders may be imported from there: `model`, `tokenizer`, `wire`, `cores`,
`training`.
"""

import sys
from pathlib import Path

_CHAT = str(Path(__file__).resolve().parents[1] / "chat")
if _CHAT not in sys.path:
    sys.path.append(_CHAT)
