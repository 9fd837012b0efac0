"""Retrieval with LlamaIndex: 168 passages through an ingestion pipeline into a vector index, and what it finds.

    python examples/llama_index_rag.py
    python examples/llama_index_rag.py --model hf:google/embeddinggemma-300m --dimensions 256 "Why is the sky red?"

Needs `pip install ".[llama-index]"`. No LLM and no key: it ends with the passages.
"""

import argparse
import json
from pathlib import Path

from llama_index.core import Document, VectorStoreIndex
from llama_index.core.ingestion import IngestionPipeline
from llama_index.core.node_parser import SentenceSplitter

from doppler_plugins.llama_index import DopplerEmbedding

PASSAGES = Path(__file__).parent / "demo_models" / "embedding" / "passages.json"
QUESTIONS = ["Why does my cup of coffee taste bitter?", "How does an owl fly without a sound?"]


def load_documents(path: Path) -> list[Document]:
    """Passages with their titles in the metadata, from where the pipeline takes them into the document prompt."""
    return [
        Document(text=row["text"], metadata={"title": row["title"]}) for row in json.loads(path.read_text())
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("questions", nargs="*", default=QUESTIONS)
    parser.add_argument("--model", default="demo-embedding")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dimensions", type=int)
    arguments = parser.parse_args()

    words = {"model": arguments.model, "device": arguments.device, "dimensions": arguments.dimensions}
    with DopplerEmbedding(**words) as embed_model:
        pipeline = IngestionPipeline(transformations=[SentenceSplitter(chunk_size=256), embed_model])
        nodes = pipeline.run(documents=load_documents(PASSAGES))
        # The nodes bring their vectors; the index embeds questions only.
        index = VectorStoreIndex(nodes, embed_model=embed_model)
        print(f"{len(nodes)} passages embedded with {arguments.model}\n")
        retriever = index.as_retriever(similarity_top_k=3)
        for question in arguments.questions:
            print(f"Question: {question}")
            for found in retriever.retrieve(question):
                print(f"  {found.score:.3f}  {found.node.metadata['title']}")


if __name__ == "__main__":
    main()
