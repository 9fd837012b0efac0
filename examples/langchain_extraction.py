"""Sentences to pydantic objects: the class is a tool, and the model has to call it with what fits its schema.

    python examples/langchain_extraction.py
    python examples/langchain_extraction.py --model hf:google/gemma-4-E2B-it "Grace, who is 79, came too."

Needs `pip install ".[langchain]"`. What the schema allows is all that the model can write, so that its
arguments always validate; whether they are true is up to the model. Without `method` the answer is JSON of the schema.
"""

import argparse

from pydantic import BaseModel, Field

from doppler_plugins.langchain import ChatDoppler

SENTENCES = ["Name Linus, age 28.", "This is Mary, 41 years old.", "Otto is 52 years old."]


class Person(BaseModel):
    """A person."""

    name: str = Field(min_length=1, max_length=40)
    age: int = Field(ge=0, le=150)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sentences", nargs="*", default=SENTENCES)
    parser.add_argument("--model", default="demo-chat")
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()

    with ChatDoppler(model=arguments.model, device=arguments.device, temperature=0, max_tokens=200) as model:
        extracting = model.with_structured_output(Person, method="function_calling")
        # One request each; the engine runs those that are under way together.
        for person in extracting.batch(arguments.sentences):
            print(repr(person))


if __name__ == "__main__":
    main()
