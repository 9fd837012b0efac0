"""The contract of threads, tasks and streams that share one model."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from llama_index.core.llms.function_calling import FunctionCallingLLM

from doppler_plugins.testing.llm_suite import QUESTION, LLMSuite, gathered, run


class LLMConcurrency(LLMSuite):
    """Nobody waits for others more than the model does."""

    prompts = (QUESTION, "What is a pond?", "Why is snow white?", "Where do kestrels live?")

    def test_threads_get_what_one_gets_alone(self, llm: FunctionCallingLLM) -> None:
        expected = [llm.complete(prompt).text for prompt in self.prompts]
        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda prompt: llm.complete(prompt).text, self.prompts))
        assert found == expected

    def test_tasks_get_what_one_gets_alone(self, llm: FunctionCallingLLM) -> None:
        async def all_at_once() -> list[str]:
            answers = await asyncio.gather(*(llm.acomplete(prompt) for prompt in self.prompts))
            return [answer.text for answer in answers]

        assert run(all_at_once()) == [llm.complete(prompt).text for prompt in self.prompts]

    def test_the_event_loop_goes_on_while_answers_stream(self, llm: FunctionCallingLLM) -> None:
        async def longest_gap() -> float:
            streams = (gathered(llm.astream_complete(prompt)) for prompt in self.prompts)
            answers = asyncio.ensure_future(asyncio.gather(*streams))
            longest, last = 0.0, time.perf_counter()
            while not answers.done():
                await asyncio.sleep(0.01)
                now = time.perf_counter()
                longest, last = max(longest, now - last), now
            await answers
            return longest

        assert run(longest_gap()) < self.longest_pause

    def test_a_cancelled_task_leaves_the_model_to_others(self, llm: FunctionCallingLLM) -> None:
        async def cancel_then_ask() -> str:
            task = asyncio.ensure_future(llm.acomplete(QUESTION))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            return (await llm.acomplete(QUESTION)).text

        assert run(cancel_then_ask()) == llm.complete(QUESTION).text

    def test_a_stream_that_is_left_does_not_hold_the_model(self, llm: FunctionCallingLLM) -> None:
        expected = llm.complete(QUESTION).text
        next(iter(llm.stream_complete(QUESTION)))

        async def leave() -> None:
            async for _ in await llm.astream_complete(QUESTION):
                break

        run(leave())
        assert llm.complete(QUESTION).text == expected
