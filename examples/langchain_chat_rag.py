"""Questions answered from notes, all of it local: an embedding model finds the notes, a chat model streams the answer.

    python examples/langchain_chat_rag.py
    python examples/langchain_chat_rag.py --model hf:google/gemma-4-E2B-it --embedding hf:google/embeddinggemma-300m

Needs `pip install ".[langchain]"`. Two engines of one process share its memory.
"""

import argparse
import asyncio
from collections.abc import Sequence

from langchain_core.documents import Document
from langchain_core.output_parsers import StrOutputParser
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore

from doppler_plugins.langchain import ChatDoppler, DopplerEmbeddings

NOTES = [
    "Tom lives in Oslo.",
    "The code of the garden gate is 4711.",
    "Anna works for a bakery.",
    "The train to Bergen leaves at 9:40.",
    "The library is closed on Monday.",
]
QUESTIONS = ["Where does Tom live?", "What is the code of the garden gate?"]
PROMPT = ChatPromptTemplate.from_template("Context: {notes}\n\nQuestion: {question}")


def as_text(documents: Sequence[Document]) -> str:
    return " ".join(document.page_content for document in documents)


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("questions", nargs="*", default=QUESTIONS)
    parser.add_argument("--model", default="demo-chat")
    parser.add_argument("--embedding", default="demo-embedding")
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()

    async with (
        ChatDoppler(model=arguments.model, device=arguments.device, temperature=0, max_tokens=300) as model,
        DopplerEmbeddings(model=arguments.embedding, device=arguments.device) as embeddings,
    ):
        store = InMemoryVectorStore(embeddings)
        await store.aadd_texts(NOTES)
        found = store.as_retriever(search_kwargs={"k": 2}) | as_text
        chain = {"notes": found, "question": RunnablePassthrough()} | PROMPT | model | StrOutputParser()
        for question in arguments.questions:
            print(f"Question: {question}")
            async for text in chain.astream(question):
                print(text, end="", flush=True)
            print()


if __name__ == "__main__":
    asyncio.run(main())
