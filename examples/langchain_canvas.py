"""A model that makes canvases: what it would say so far is rewritten in place, what has settled stays.

    python examples/langchain_canvas.py
    python examples/langchain_canvas.py --model diffusiongemma "Why is the sky blue?"

Needs `pip install ".[langchain]"`. Drafts come in chunks without text; the text of all chunks is the answer.
"""

import argparse
import sys

from doppler_plugins.langchain import ChatDoppler

TASKS = (
    "Sort: pear lemon apple",
    "Count down from 46 to 39.",
    "Count from 31 to 46.",
)
REWRITE = "\r\033[K" if sys.stdout.isatty() else ""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tasks", nargs="*", default=TASKS)
    parser.add_argument("--model", default="demo-diffusion")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    with ChatDoppler(
        model=arguments.model, device=arguments.device, seed=arguments.seed, drafts=True
    ) as model:
        for task in arguments.tasks:
            print(task)
            settled = ""
            for chunk in model.stream(task):
                settled += chunk.text
                for draft in chunk.additional_kwargs.get("drafts", ()):
                    line = f"  {settled}{draft['text']}  ({draft['step']} of {draft['steps']})"
                    print(REWRITE + line, end="" if REWRITE else "\n", flush=True)
                figures = chunk.response_metadata
                if "tokens_per_forward" in figures:
                    said = f"  = {settled}  ({figures['tokens_per_forward']:.1f} tokens a step)"
                    print(REWRITE + said)


if __name__ == "__main__":
    main()
