"""Masks say what a grammar allows next, and nothing else; the table behind them is made once."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import doppler_core.text.grammar.table as table_module
from doppler_core.errors import FileFormatError, InputError
from doppler_core.text.chat.gemma4_marks import ENDS, MARKS
from doppler_core.text.grammar.form import Grammar, JsonSchema, Lark, Regex
from doppler_core.text.grammar.library_text import library_text
from doppler_core.text.grammar.masks import Constraint, constraint
from doppler_core.text.grammar.table import TokenTable
from doppler_core.text.tokenizer import Tokenizer
from tests.chat_tokenizers import small_tokenizer, write_tokenizer
from tests.grammars import allowed, control_ids, open_table

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
import grammar_masks

Opened = tuple[Tokenizer, TokenTable]
ANY_TEXT = "(?s:.*)"
OBJECT = JsonSchema({"type": "object", "properties": {"state": {"type": "boolean"}}, "required": ["state"]})


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return open_table(tmp_path_factory.mktemp("tokenizer"))


def end_ids(tokenizer: Tokenizer) -> set[int]:
    return {number for name in ENDS if (number := tokenizer.token_id(name)) is not None}


def after(opened: Opened, grammar: Grammar, text: str) -> Constraint:
    now = constraint(opened[1], grammar)
    for token in opened[0].encode(text, bare=True):
        now.accept(token)
    return now


def test_words_have_a_bit_for_each_row_of_the_embedding_table(opened: Opened) -> None:
    words = constraint(opened[1], OBJECT).words()
    assert words.dtype == np.uint32
    assert words.shape == (-(-opened[0].vocabulary // 32),)


@pytest.mark.parametrize("grammar", [Regex(ANY_TEXT), JsonSchema({}), Lark(f"start: /{ANY_TEXT}/")])
def test_rows_without_a_token_are_never_allowed(grammar: Grammar, opened: Opened) -> None:
    tokenizer = opened[0]
    beyond = next(number for number in range(tokenizer.vocabulary) if not tokenizer.decode([number], False))
    assert beyond < tokenizer.vocabulary - 1
    assert max(allowed(constraint(opened[1], grammar))) < beyond


@pytest.mark.parametrize("text", ["", "a", "so "])
def test_text_of_any_kind_holds_every_token_but_the_control_tokens(text: str, opened: Opened) -> None:
    found = set(allowed(after(opened, Regex(ANY_TEXT), text)).tolist())
    assert found & control_ids(opened[0]) == end_ids(opened[0])
    texts = {number for number in range(opened[0].vocabulary) if opened[0].piece(number)}
    missing = {opened[0].piece(number) for number in texts - found}
    assert all(len(piece) == 1 and piece[0] >= 0x80 for piece in missing)  # bytes that begin no character
    quoted = set(allowed(after(opened, JsonSchema({"type": "string"}), f'"{text}')).tolist())
    assert not quoted & control_ids(opened[0])


def test_a_control_token_is_allowed_where_the_grammar_names_it(opened: Opened) -> None:
    call = opened[0].token_id("<|tool_call>")
    assert call is not None
    for name in ("<|tool_call>", f"<[{call}]>"):
        now = constraint(opened[1], Lark(f'start: "a" {name} "b"'))
        assert call not in allowed(now)
        now.accept(*opened[0].encode("a", bare=True))
        assert allowed(now).tolist() == [call]


def test_a_control_token_that_is_spelled_is_text(opened: Opened) -> None:
    now = after(opened, Regex("<eos>"), "<eos>")
    assert now.stopped
    assert set(allowed(now).tolist()) == end_ids(opened[0])


def test_marks_that_a_tokenizer_takes_for_text_are_control_tokens_all_the_same(tmp_path: Path) -> None:
    tokenizer = small_tokenizer(tmp_path, MARKS, special=False)
    assert not control_ids(tokenizer)
    marks = {tokenizer.token_id(mark) for mark in MARKS}
    ends = end_ids(tokenizer)
    plain, knowing = (TokenTable(tokenizer, ends, known) for known in ((), MARKS))
    assert marks & set(allowed(constraint(plain, Regex(ANY_TEXT))).tolist()) > ends
    assert marks & set(allowed(constraint(knowing, Regex(ANY_TEXT))).tolist()) == ends


def test_the_end_is_allowed_where_the_text_may_end_and_nowhere_else(opened: Opened) -> None:
    now = constraint(opened[1], Regex("ab?"))
    assert not end_ids(opened[0]) & set(allowed(now).tolist())
    now.accept(*opened[0].encode("a", bare=True))
    assert not now.stopped
    assert end_ids(opened[0]) < set(allowed(now).tolist())
    now.accept(*opened[0].encode("b", bare=True))
    assert now.stopped
    assert now.forced() == []
    assert set(allowed(now).tolist()) == end_ids(opened[0])
    now.accept(min(end_ids(opened[0])))
    assert now.stopped
    assert set(allowed(now).tolist()) == end_ids(opened[0])


def test_what_must_come_next_is_said_as_the_tokenizer_spells_it(opened: Opened) -> None:
    tokenizer = opened[0]
    now = constraint(opened[1], OBJECT)
    assert now.forced() == tokenizer.encode('{"state":', bare=True)
    for token in now.forced():
        assert allowed(now).tolist() == [token]
        now.accept(token)
    assert now.forced() == []
    now.accept(tokenizer.encode("t", bare=True)[0])
    assert now.forced() == tokenizer.encode("rue}", bare=True)


def test_a_token_that_is_not_allowed_is_refused(opened: Opened) -> None:
    now = constraint(opened[1], Regex("abc"))
    (wrong,) = opened[0].encode("z", bare=True)
    with pytest.raises(InputError, match=f"token {wrong} is not allowed here"):
        now.accept(wrong)
    with pytest.raises(
        InputError, match="grammar"
    ):  # and not a mask that ends the text, as the library gives
        now.words()
    with pytest.raises(InputError, match="grammar"):
        now.forced()


def test_constraints_of_one_grammar_know_nothing_of_each_other(opened: Opened) -> None:
    one, other = (constraint(opened[1], Regex("a(b|c)")) for _ in range(2))
    one.accept(*opened[0].encode("a", bare=True))
    assert allowed(other).tolist() == opened[0].encode("a", bare=True)
    # "b" is a token of its own, and a byte that spells what no token does.
    assert [opened[0].piece(int(token)) for token in allowed(one)] == [b"b", b"c", b"b", b"c"]


@pytest.mark.parametrize(
    ("grammar", "message"),
    [
        (Lark("start: nobody"), 'unknown name: "nobody"'),
        (Lark('begin: "a"'), "no start rule"),
        (Lark("start: <nobody>"), 'unknown special token: "<nobody>"'),
        (Lark('start: "a'), "lexer error"),
        (Lark("start: @part"), "unknown grammar @part"),
        (
            Lark('start: "a" @x @y', {"x": Lark("start: @y", {"y": Regex("1")}), "y": Regex("2")}),
            "the name 'y'",
        ),
        (
            Lark("start: r0\n" + "\n".join(f'r{at}: "a" r{at + 1}' for at in range(5000)) + '\nr5000: "b"'),
            "deep",
        ),
        (Regex("(a"), "'(a' can't be held by a grammar: a ( that is not closed"),
        (Regex("(?=a)b"), "look-around"),
        (Lark("start: A\nA: /a/ & /b/"), "no text fits it"),
        (Regex(""), "a regular expression that is not empty"),
        (Regex(5), "a regular expression that is not empty"),  # type: ignore[arg-type]
        (Lark(5), "Lark's notation, a str, got int"),  # type: ignore[arg-type]
        (Lark(b'start: "a"'), "Lark's notation, a str, got bytes"),  # type: ignore[arg-type]
        (Lark('start: "a"', 5), "parts is 5: expected a grammar for each name"),  # type: ignore[arg-type]
        (Lark('start: "a"', None), "parts is None"),  # type: ignore[arg-type]
        (Lark('start: "a"', {5: Regex("a")}), "parts is {5"),  # type: ignore[dict-item]
        (Lark('start: "a"', {"b": 5}), "expected JsonSchema, Regex or Lark, got int"),  # type: ignore[dict-item]
        (JsonSchema({"not": {}}), "schema: #: not"),
        ("[a-z]+", "expected JsonSchema, Regex or Lark, got str"),
    ],
)
def test_a_grammar_that_is_none_is_refused_before_a_token_is_made(
    grammar: Grammar, message: str, opened: Opened
) -> None:
    with pytest.raises(InputError) as caught:
        constraint(opened[1], grammar)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 2500


def test_a_grammar_may_refer_to_others(opened: Opened) -> None:
    grammar = Lark('start: "x" @body "y"', {"body": Lark('start: "<" @inner ">"', {"inner": Regex("[ab]")})})
    assert after(opened, grammar, "x<a>y").stopped


def test_equal_grammars_are_compiled_once_and_seldom_used_ones_are_dropped(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiled: list[str] = []

    def counting(tokens: object, text: str, compile_: object = table_module._compiled) -> object:
        compiled.append(text)
        return compile_(tokens, text)  # type: ignore[operator]

    monkeypatch.setattr(table_module, "_compiled", counting)
    monkeypatch.setattr(table_module, "_KEPT", 2)
    table = TokenTable(opened[0], sorted(end_ids(opened[0])))
    for pattern in ("a", "b", "a", "c", "a", "b"):
        constraint(table, Regex(pattern))
    expected = [library_text(Regex(pattern)) for pattern in ("a", "b", "c", "b")]
    assert compiled == expected


class CountingTokenizer(Tokenizer):
    """How often its pieces were asked for, and by which threads; it waits to be let go."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, 1000)
        self.asked: list[str] = []
        self.go = threading.Event()

    def pieces(self) -> Iterator[bytes]:
        self.asked.append(threading.current_thread().name)
        assert self.go.wait(30)
        yield from super().pieces()


def test_the_table_is_made_once_on_a_thread_of_its_own(tmp_path: Path) -> None:
    tokenizer = CountingTokenizer(write_tokenizer(tmp_path, MARKS))
    table = TokenTable(tokenizer, end_ids(tokenizer))
    assert tokenizer.asked == []
    table.start()  # it returns while the table waits
    table.start()
    with ThreadPoolExecutor(8) as pool:
        masks = [pool.submit(lambda: constraint(table, Regex("[a-c]+")).words()) for _ in range(32)]
        tokenizer.go.set()
        first = masks[0].result()
        assert all(np.array_equal(one.result(), first) for one in masks)
    assert tokenizer.asked == ["doppler-plugins token table"]


def test_a_table_that_cant_be_made_says_why_to_all_that_want_it(tmp_path: Path) -> None:
    class Broken(Tokenizer):
        def pieces(self) -> Iterator[bytes]:
            raise FileFormatError("tokenizer.json: it can't decode its own tokens")

    broken = Broken(write_tokenizer(tmp_path, MARKS), 1000)
    table = TokenTable(broken, [1])
    for _ in range(2):
        with pytest.raises(FileFormatError, match="its own tokens"):
            constraint(table, Regex("a"))


def test_a_model_without_end_tokens_can_hold_no_grammar(opened: Opened) -> None:
    with pytest.raises(InputError, match="eos_token_id"):
        constraint(TokenTable(opened[0], []), Regex("a"))


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.2, 0.4, 0.6])
def test_a_process_may_end_while_the_table_is_being_made(seconds: float, tmp_path: Path) -> None:
    """A daemon thread was seen to end it with a segmentation fault."""
    code = (
        "import sys, time, pathlib\n"
        "from doppler_core.text.grammar.table import TokenTable\n"
        "from doppler_core.text.tokenizer import Tokenizer\n"
        f"TokenTable(Tokenizer(pathlib.Path({str(write_tokenizer(tmp_path, MARKS))!r}), 1_000_000), [1]).start()\n"
        f"time.sleep({seconds})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_the_benchmark_of_masks_judges_each_grammar(capsys: pytest.CaptureFixture[str]) -> None:
    tokenizer = Path(__file__).parents[1] / "models" / "demo-chat" / "tokenizer.json"
    missed = grammar_masks.main([str(tokenizer), "--rows", "1280", "--texts", "2"])
    printed = capsys.readouterr().out
    assert printed.count("compiled in") == printed.count("held") + printed.count("MISSED") == 6
    assert missed == ("MISSED" in printed)


@pytest.mark.parametrize(
    "grammar", [Regex("\ud800b"), Lark('start: "\ud800b"'), JsonSchema({"const": "\ud800b"})]
)
def test_half_a_character_stands_for_none_as_in_every_text(grammar: Grammar, opened: Opened) -> None:
    now = constraint(opened[1], grammar)
    before = '"' if isinstance(grammar, JsonSchema) else ""
    for token in opened[0].encode(f"{before}\ufffdb{before}", bare=True):
        now.accept(token)
    assert now.stopped or end_ids(opened[0]) & set(allowed(now))
