"""The tokens of a tokenizer as masks need them: takes a Tokenizer and its end ids, gives matchers of grammars.

It reads no grammar itself: one comes as llguidance writes it.
"""

import threading
from collections import OrderedDict
from collections.abc import Collection, Sequence
from concurrent.futures import CancelledError, Future
from typing import Any

from doppler_core.errors import EngineClosedError, InputError
from doppler_core.text.grammar.library_check import outgrown
from doppler_core.text.tokenizer import Tokenizer

# Compiled grammars that are kept. One takes tens of kilobytes to a few megabytes, by how much of it was visited.
_KEPT = 64


class TokenTable:
    """The table of a tokenizer: made once, on a thread of its own, as it takes seconds for a large vocabulary.

    Any number of threads may use it.
    """

    def __init__(self, tokenizer: Tokenizer, ends: Collection[int], marks: Collection[str] = ()) -> None:
        """ends: the tokens that end a text. A mask allows them where a grammar's text may end, and nowhere else.

        marks: control tokens by their texts, beside those that the tokenizer knows for such. A mask allows a control
            token only where the grammar names it.
        """
        self.vocabulary = tokenizer.vocabulary
        self._tokenizer = tokenizer
        self._ends = [end for end in dict.fromkeys(ends) if 0 <= end < tokenizer.vocabulary]
        self._marks = tuple(marks)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._made: Future[Any] = Future()
        self._matchers: OrderedDict[str, Future[Any]] = OrderedDict()

    def start(self) -> None:
        """Begin to make the table, unless that has begun. Returns at once."""
        with self._lock:
            if self._thread is None:
                # No daemon, as the thread that starts it may be: native code that is at work when the interpreter goes
                # away ends the process badly.
                self._thread = threading.Thread(
                    target=self._make, name="doppler-plugins token table", daemon=False
                )
                self._thread.start()

    def matcher(self, text: str) -> Any:
        """A fresh llguidance.LLMatcher of a grammar, which waits for the table where that is still being made.

        A grammar that several threads ask for at once is compiled by the first of them. InputError: it is malformed or too
        large.
        """
        self.start()
        tokens = self._made.result()
        while True:
            with self._lock:
                found, is_mine = self._kept(text)
            if is_mine:
                self._compile(tokens, text, found)
            try:
                matcher = found.result()
            except CancelledError:  # whoever compiled it was interrupted
                continue
            with self._lock:
                return matcher.deep_copy()

    def _kept(self, text: str) -> tuple[Future[Any], bool]:
        """What a grammar compiles to, and whether the caller is the first who wants it, and has to compile it."""
        found = self._matchers.get(text)
        if found is not None:
            self._matchers.move_to_end(text)
            return found, False
        found = self._matchers[text] = Future()
        while len(self._matchers) > _KEPT:
            self._matchers.popitem(last=False)
        return found, True

    def _compile(self, tokens: Any, text: str, found: Future[Any]) -> None:
        """An error is that of all who wait for it now, and is not kept: it may have been a lack of memory."""
        try:
            found.set_result(_compiled(tokens, text))
        except BaseException as error:
            with self._lock:
                if self._matchers.get(text) is found:
                    del self._matchers[text]
            if not isinstance(error, Exception):
                found.cancel()
                raise
            found.set_exception(error)

    def _make(self) -> None:
        try:
            self._made.set_result(self._tokens())
        except BaseException as error:  # noqa: BLE001 - whoever waits for the table has to learn of it
            self._made.set_exception(error)

    def _tokens(self) -> Any:
        from llguidance import LLTokenizer

        if not self._ends:
            raise InputError(
                f"{self._tokenizer.path}: a grammar needs a token that ends the text, and the model names none in "
                "generation_config.json or config.json (eos_token_id)"
            )
        source = _Source(self._tokenizer, self._ends, self._marks)
        # In two calls, as each holds the interpreter's lock to its end.
        tokens = LLTokenizer(source, eos_token=self._ends, slices=[])
        source.tokens.clear()  # the library has copied them, and keeps the source for its encoding
        _check_wanted()
        return tokens.with_slices(LLTokenizer.general_slices())


class _Source:
    """What llguidance reads of a tokenizer, by the names that it gives it."""

    is_tokenizer_wrapper = True
    bos_token_id = None

    def __init__(self, tokenizer: Tokenizer, ends: Sequence[int], marks: Collection[str]) -> None:
        control = {
            number: text
            for text in sorted(tokenizer.control.union(marks))
            if (number := tokenizer.token_id(text)) is not None and number < tokenizer.vocabulary
        }
        self.tokens: list[bytes] = []
        for number, piece in enumerate(tokenizer.pieces()):
            if number % 4096 == 0:
                _check_wanted()
            self.tokens.append(piece)
        _check_wanted()
        for number, text in control.items():
            self.tokens[number] = text.encode()
        self.special_token_ids = sorted(control.keys() | set(ends))
        self.eos_token_id = ends[0]
        self._encode = tokenizer.encode

    def __call__(self, text: str) -> list[int]:
        """The ids of a text that a grammar forces."""
        return self._encode(text, bare=True)


def _check_wanted() -> None:
    """EngineClosedError where the process is about to end, and waits for this thread."""
    if not threading.main_thread().is_alive():
        raise EngineClosedError("the process ends")


def in_words(error: str) -> str:
    """What a matcher says went wrong."""
    said = error.partition("<backtrace>")[0].removesuffix("<non-verbose/>").strip()
    if "grammar.symbols.len()" in said:
        return "it has more parts than the library can number, which are some 65,000: write it with fewer"
    if said.startswith("NoExtension"):
        return "no text fits it"
    return outgrown(said) or said[:2000]


def _compiled(tokens: Any, text: str) -> Any:
    from llguidance import LLMatcher, LLParserLimits

    matcher = LLMatcher(tokens, text, log_level=0, limits=LLParserLimits(verbose_errors=False))
    if not matcher.is_error():
        matcher.compute_bitmask()  # a contradiction shows with the first mask
    if matcher.is_error():
        raise InputError(f"grammar: {in_words(matcher.get_error())}")
    return matcher
