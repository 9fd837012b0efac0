"""Retrieval for a chat model with LangChain: 168 passages, a vector store, and the prompt a chat model would get.

    python examples/langchain_rag.py
    python examples/langchain_rag.py --model hf:google/embeddinggemma-300m --dimensions 256 "Why is the sky red?"

Needs `pip install ".[langchain]"`. No chat model and no key: the last step is the finished prompt.
"""

import argparse
import asyncio
import json
from pathlib import Path

from langchain_core.documents import Document
from langchain_core.prompts import ChatPromptTemplate
from langchain_core.runnables import RunnablePassthrough
from langchain_core.vectorstores import InMemoryVectorStore

from doppler_plugins.langchain import DopplerEmbeddings

PASSAGES = Path(__file__).parent / "demo_models" / "embedding" / "passages.json"
QUESTIONS = ["Why does my cup of coffee taste bitter?", "How does an owl fly without a sound?"]
PROMPT = ChatPromptTemplate.from_template("Answer from these passages:\n\n{context}\n\nQuestion: {question}")


def load_documents(path: Path) -> list[Document]:
    """Passages with their titles where LangChain keeps them: in the metadata."""
    return [Document(row["text"], metadata={"title": row["title"]}) for row in json.loads(path.read_text())]


def as_context(documents: list[Document]) -> str:
    return "\n\n".join(f"{document.metadata['title']}: {document.page_content}" for document in documents)


async def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("questions", nargs="*", default=QUESTIONS)
    parser.add_argument("--model", default="demo-embedding")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dimensions", type=int)
    arguments = parser.parse_args()

    documents = load_documents(PASSAGES)
    words = {"model": arguments.model, "device": arguments.device, "dimensions": arguments.dimensions}
    async with DopplerEmbeddings(**words) as embeddings:
        # A vector store hands on texts alone, so the view brings the titles into the document prompt.
        store = InMemoryVectorStore(embeddings.with_titles_of(documents))
        await store.aadd_documents(documents)
        print(f"{len(documents)} passages embedded with {arguments.model}\n")
        for question in arguments.questions:
            print(f"Question: {question}")
            for found, score in await store.asimilarity_search_with_score(question, k=3):
                print(f"  {score:.3f}  {found.metadata['title']}")
        retriever = store.as_retriever(search_kwargs={"k": 1})
        chain = {"context": retriever | as_context, "question": RunnablePassthrough()} | PROMPT
        prompt = await chain.ainvoke(arguments.questions[0])
        print(f"\nWhat a chat model would be asked:\n\n{prompt.to_messages()[0].text}")


if __name__ == "__main__":
    asyncio.run(main())
