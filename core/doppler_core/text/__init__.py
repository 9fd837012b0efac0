"""Text in, ids out, and back: tokenizers and prompts."""
