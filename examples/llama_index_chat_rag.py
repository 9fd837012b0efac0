"""Questions answered from notes with LlamaIndex, all of it local: a query engine whose answer streams.

    python examples/llama_index_chat_rag.py
    python examples/llama_index_chat_rag.py --model hf:google/gemma-4-E2B-it --embedding hf:google/embeddinggemma-300m

Needs `pip install ".[llama-index]"`. `use_doppler` sets both models, and the tokenizer that LlamaIndex counts with.
"""

import argparse

from llama_index.core import Document, PromptTemplate, VectorStoreIndex

from doppler_plugins.llama_index import DopplerEmbedding, DopplerLLM, use_doppler

NOTES = [
    "Tom lives in Oslo.",
    "The code of the garden gate is 4711.",
    "Anna works for a bakery.",
    "The train to Bergen leaves at 9:40.",
    "The library is closed on Monday.",
]
QUESTIONS = ["Where does Tom live?", "What is the code of the garden gate?"]
PROMPT = PromptTemplate("Context: {context_str}\n\nQuestion: {query_str}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("questions", nargs="*", default=QUESTIONS)
    parser.add_argument("--model", default="demo-chat")
    parser.add_argument("--embedding", default="demo-embedding")
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()

    llm = DopplerLLM(model=arguments.model, device=arguments.device, temperature=0.0, max_tokens=300)
    embed_model = DopplerEmbedding(model=arguments.embedding, device=arguments.device)
    with llm, embed_model:
        use_doppler(llm, embed_model)
        index = VectorStoreIndex.from_documents([Document(text=note) for note in NOTES])
        engine = index.as_query_engine(streaming=True, similarity_top_k=1, text_qa_template=PROMPT)
        for question in arguments.questions:
            print(f"Question: {question}")
            response = engine.query(question)
            print(f"  from: {response.source_nodes[0].node.get_content()}")
            for piece in response.response_gen:
                print(piece, end="", flush=True)
            print()


if __name__ == "__main__":
    main()
