"""What a LlamaIndex LLM class that calls functions has to do, as tests. LlamaIndex has no such suite of its own.

    class TestMine(LlamaIndexLLMContract):
        @property
        def llm_class(self): return MyLLM
        @property
        def llm_params(self): return {"model": "mine", "temperature": 0.0, "max_tokens": 200}

What the class can't do is said by the properties of `LLMSuite`. Coroutines run in `asyncio.run`, so that no pytest plugin is
needed.
"""

from doppler_plugins.testing.llm_components import LLMComponents
from doppler_plugins.testing.llm_concurrency import LLMConcurrency
from doppler_plugins.testing.llm_forms import LLMForms
from doppler_plugins.testing.llm_structured import LLMStructured
from doppler_plugins.testing.llm_tools import LLMTools


class LlamaIndexLLMContract(LLMForms, LLMConcurrency, LLMTools, LLMStructured, LLMComponents):
    """The whole contract."""
