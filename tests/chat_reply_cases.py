"""Replies as Gemma 4 may write them, and what is in them.

A reply is written as the control tokens and texts that come, with control tokens in ⟦ ⟧ and ` for the quote token, so
that what a model spells in text can be told from what it means.
"""

import re
from dataclasses import dataclass
from typing import Any

from doppler_core.text.chat import Control, Piece

_WRITTEN = re.compile(r"⟦([^⟧]*)⟧|(`)")


@dataclass(frozen=True)
class Case:
    """calls: name and arguments of each; a str for one that is invalid: what its error says, after its name and `: `."""

    name: str
    reply: str
    text: str = ""
    reasoning: str = ""
    calls: tuple[Any, ...] = ()
    cut: bool = False
    prompt: tuple[Piece, ...] = ()


def pieces_of(reply: str) -> list[Piece]:
    """The control tokens and texts of a written reply."""
    found: list[Piece] = []
    at = 0
    for match in _WRITTEN.finditer(reply):
        found += [reply[at : match.start()], Control('<|"|>' if match[2] else match[1])]
        at = match.end()
    return [piece for piece in (*found, reply[at:]) if piece != ""]


def called(arguments: str, name: str = "f") -> str:
    """A reply that is one call."""
    return f"⟦<|tool_call>⟧call:{name}{{{arguments}}}⟦<tool_call|>⟧⟦<|tool_response>⟧"


def read(name: str, arguments: str, expected: dict[str, Any]) -> Case:
    """A call that is well written."""
    return Case(name, called(arguments), calls=(("f", expected),))


def drifted(name: str, arguments: str, error: str) -> Case:
    """A call that is not."""
    return Case(name, called(arguments), calls=(f"f: {error}",))


TEXTS = (
    Case("nothing", ""),
    Case("text", "Plain answer⟦<turn|>⟧", text="Plain answer"),
    Case("text of many lines", " a\n\n b \n⟦<turn|>⟧", text=" a\n\n b \n"),
    Case("white space alone", "\n⟦<turn|>⟧", text="\n"),
    Case("signs of the notation", 'call:f{a:1} "x" <b> [1]', text='call:f{a:1} "x" <b> [1]'),
    Case(
        "control tokens that are spelled",
        '<|tool_call>call:f{}<tool_call|> <|"|> <|channel>thought\n',
        text='<|tool_call>call:f{}<tool_call|> <|"|> <|channel>thought\n',
    ),
    Case("JSON", '{"answers":{"q1":[0.0,0.0,0.95]}}⟦<turn|>⟧', text='{"answers":{"q1":[0.0,0.0,0.95]}}'),
    Case("control tokens that mean nothing there", "a⟦<tool_call|>⟧⟦<channel|>⟧`b", text="ab"),
)
THOUGHTS = (
    Case("a thought", "⟦<|channel>⟧thought\nT⟦<channel|>⟧A", text="A", reasoning="T"),
    Case(
        "JSON after an empty thought",
        '⟦<|channel>⟧thought\n⟦<channel|>⟧{"answers":{"q1":[0.0,0.0,0.0,0.95,0.05]}}⟦<turn|>⟧',
        text='{"answers":{"q1":[0.0,0.0,0.0,0.95,0.05]}}',
    ),
    Case("an empty thought", "⟦<|channel>⟧thought\n⟦<channel|>⟧A", text="A"),
    Case("a thought without a line break", "⟦<|channel>⟧thought⟦<channel|>⟧A", text="A"),
    Case(
        "a thought in lines",
        "⟦<|channel>⟧thought\n\na\n\n b \n⟦<channel|>⟧\n\nA ",
        text="A ",
        reasoning="a\n\n b",
    ),
    Case("a channel of another name", "⟦<|channel>⟧final\nx⟦<channel|>⟧A", text="A", reasoning="final\nx"),
    Case(
        "a thought of the same beginning", "⟦<|channel>⟧thoughts⟦<channel|>⟧A", text="A", reasoning="thoughts"
    ),
    Case(
        "two thoughts", "⟦<|channel>⟧thought\na⟦<channel|>⟧ x⟦<|channel>⟧thought\nb⟦<channel|>⟧y", "xy", "ab"
    ),
    Case("a thought that is cut off", "⟦<|channel>⟧thought\nT, and ", reasoning="T, and", cut=True),
    Case("a thought cut off in its first line", "⟦<|channel>⟧thou", cut=True),
    Case(
        "a thought that the prompt has begun",
        "T⟦<channel|>⟧A",
        text="A",
        reasoning="T",
        prompt=(Control("<|channel>"), "thought\n"),
    ),
    Case(
        "text after a prompt with a thought that is over",
        " T",
        text=" T",
        prompt=(Control("<|channel>"), "thought\n", Control("<channel|>"), "so"),
    ),
    Case(
        "a thought and a call",
        "⟦<|channel>⟧thought\nT\n⟦<channel|>⟧" + called("a:1"),
        "",
        "T",
        (("f", {"a": 1}),),
    ),
    Case(
        "a call within a thought",
        "⟦<|channel>⟧thought\nT" + called("a:1"),
        reasoning="T",
        calls=("f: within a thought",),
    ),
    Case("a thought that the turn ends in", "⟦<|channel>⟧thought\nT⟦<turn|>⟧", reasoning="T"),
)
CALLS = (
    read("no arguments", "", {}),
    read("white space for arguments", " ", {}),
    read("a text", "a:`x`", {"a": "x"}),
    read("an empty text", "a:``", {"a": ""}),
    read("braces in a text", "a:`Paris {x}, [y]: }}`", {"a": "Paris {x}, [y]: }}"}),
    read("JSON in a text", 'a:`{"b": "c"}`', {"a": '{"b": "c"}'}),
    read("quotes in a text", 'a:`say "hi", it\'s`', {"a": 'say "hi", it\'s'}),
    read("a quote token spelled in a text", 'a:`<|"|>,b:<|"|>`', {"a": '<|"|>,b:<|"|>'}),
    read("the end of a call spelled in a text", "a:`<tool_call|><turn|>`", {"a": "<tool_call|><turn|>"}),
    read("line breaks in a text", "a:`\n x\r\n\ty\n`", {"a": "\n x\r\n\ty\n"}),
    read("backslashes in a text", r"a:`C:\new\u0041\`", {"a": "C:\\new\\u0041\\"}),
    read("unicode in a text", "a:`é日本 \U0001fae8\u2028\u200d`", {"a": "é日本 \U0001fae8\u2028\u200d"}),
    read(
        "code in a text",
        "a:`def f():\n    return {'a': [1]}  # }`",
        {"a": "def f():\n    return {'a': [1]}  # }"},
    ),
    read(
        "words that are values as text", "a:`null`,b:`007`,c:`true`", {"a": "null", "b": "007", "c": "true"}
    ),
    read("null, true and false", "a:null,b:true,c:false", {"a": None, "b": True, "c": False}),
    read("null as the publisher's template writes it", "a:None", {"a": None}),
    read("whole numbers", "a:0,b:-7,c:12345678901234567890", {"a": 0, "b": -7, "c": 12345678901234567890}),
    read("numbers", "a:-2.5e3,b:0.5,c:1E-7,d:-0.0", {"a": -2500.0, "b": 0.5, "c": 1e-7, "d": -0.0}),
    read(
        "values bare and in quotes",
        "a:null,b:true,c:-0.5,d:`null`,e:`007`,f:[],h:{},i:``",
        {"a": None, "b": True, "c": -0.5, "d": "null", "e": "007", "f": [], "h": {}, "i": ""},
    ),
    read("an empty list and object", "a:[],b:{}", {"a": [], "b": {}}),
    read("lists", "a:[`x,y`,[1,[]],null]", {"a": ["x,y", [1, []], None]}),
    read("objects", "a:{b:{c:{d:`}`}}},e:1", {"a": {"b": {"c": {"d": "}"}}}, "e": 1}),
    read(
        "objects and lists within each other",
        "loc:{city:`New, York`,geo:[1,-2.5e3]},stops:[{c:`Paris`},{c:`Ly}on`}],n:1",
        {
            "loc": {"city": "New, York", "geo": [1, -2500.0]},
            "stops": [{"c": "Paris"}, {"c": "Ly}on"}],
            "n": 1,
        },
    ),
    read("white space between all signs", " a : 1 ,\n b : [ 1 , `x` ] ", {"a": 1, "b": [1, "x"]}),
    read("keys of words", "a b:1,c-d.e$:2,é:3", {"a b": 1, "c-d.e$": 2, "é": 3}),
    read("keys in quotes", "`a:b`:1,``:2,` c `:3", {"a:b": 1, "": 2, " c ": 3}),
    read(
        "keys that are words of the notation",
        "null:1,call:2,true:3,5:4",
        {"null": 1, "call": 2, "true": 3, "5": 4},
    ),
    read(
        "JSON's quotes around keys and texts",
        r'"a":"x\n\"y\"","b":["é",`z`]',
        {"a": 'x\n"y"', "b": ["é", "z"]},
    ),
    Case("a name with signs", called("", "ns.get-it:v1/x"), calls=(("ns.get-it:v1/x", {}),)),
    Case(
        "white space around the call",
        "⟦<|tool_call>⟧ call: f {a:1} \n⟦<tool_call|>⟧",
        calls=(("f", {"a": 1}),),
    ),
    Case("text before a call", "Let me see. " + called("a:1"), text="Let me see. ", calls=(("f", {"a": 1}),)),
    Case("text after a call", "⟦<|tool_call>⟧call:f{}⟦<tool_call|>⟧\nDone", text="Done", calls=(("f", {}),)),
    Case(
        "calls that follow each other",
        "⟦<|tool_call>⟧call:f{a:1}⟦<tool_call|>⟧⟦<|tool_call>⟧call:g{a:1}⟦<tool_call|>⟧\n" + called("a:1"),
        calls=(("f", {"a": 1}), ("g", {"a": 1}), ("f", {"a": 1})),
    ),
    Case(
        "a call that is ended by its own mark alone",
        "⟦<|tool_call>⟧call:f{}⟦<tool_call|>⟧",
        calls=(("f", {}),),
    ),
)
NO_CALLS = (
    Case(
        "cut off in a number", "⟦<|tool_call>⟧call:pay{to:`Bob`,amount:10", calls=("pay: cut off",), cut=True
    ),
    Case("cut off in a text", "⟦<|tool_call>⟧call:pay{to:`Bo", calls=("pay: cut off",), cut=True),
    Case(
        "cut off before its end mark", "⟦<|tool_call>⟧call:pay{to:`Bob`}", calls=("pay: cut off",), cut=True
    ),
    Case("cut off in its name", "⟦<|tool_call>⟧call:pa", calls=("None: cut off",), cut=True),
    Case("cut off at once", "⟦<|tool_call>⟧", calls=("None: cut off",), cut=True),
    Case(
        "cut off after a whole one",
        called("a:1") + "⟦<|tool_call>⟧call:f{a:2",
        calls=(("f", {"a": 1}), "f: cut"),
        cut=True,
    ),
    Case("ended by the turn", "⟦<|tool_call>⟧call:f{a:1}⟦<turn|>⟧", calls=("f: not closed",)),
    Case("ended by the reply", "⟦<|tool_call>⟧call:f{a:1}", calls=("f: ended",)),
    Case(
        "the next one begins within it",
        "⟦<|tool_call>⟧call:f{a:1" + called("a:2"),
        calls=("f: not closed", ("f", {"a": 2})),
    ),
    Case(
        "a thought begins within it",
        "⟦<|tool_call>⟧call:f{⟦<|channel>⟧thought\nT⟦<channel|>⟧",
        "",
        "T",
        ("f: not closed",),
    ),
    Case("no call at all", "⟦<|tool_call>⟧f{a:1}⟦<tool_call|>⟧", calls=("None: expected `call:`",)),
    Case("nothing in it", "⟦<|tool_call>⟧⟦<tool_call|>⟧", calls=("None: expected `call:`",)),
    Case("no braces", "⟦<|tool_call>⟧call:f⟦<tool_call|>⟧", calls=("None: expected `call:`",)),
    Case("round brackets", "⟦<|tool_call>⟧call:f(a=1)⟦<tool_call|>⟧", calls=("None: expected `call:`",)),
    Case("JSON for the whole", '⟦<|tool_call>⟧{"name":"f"}⟦<tool_call|>⟧', calls=("None: expected `call:`",)),
    Case("a name with a space", called("a:1", "get it"), calls=("None: expected `call:`",)),
    drifted("a brace too few", "a:{b:1", "expected ,"),
    drifted("a brace too many", "a:1}", "after the arguments"),
    drifted("the wrong bracket", "a:[1}", "expected ,"),
    drifted("a text that is not closed", "a:`x}", "not closed"),
    drifted("a quote that is not closed", 'a:"x', "not closed"),
    drifted("a text of JSON that is none", r'a:"\q"', "JSON's quotes"),
    drifted("half of a surrogate pair", r'a:"\ud800"', "JSON's quotes"),
    drifted("a word for a text", "a:Paris", "the word 'Paris'"),
    drifted("Python's words", "a:True", "the word 'True'"),
    drifted("a number that is none", "a:007", "the word '007'"),
    drifted("no number", "a:NaN", "the word 'NaN'"),
    drifted("a number without end", "a:1e999", "too large"),
    drifted("a whole number without end", "a:" + "9" * 1290, "too large"),
    drifted("digits of another script", "a:१", "the word"),
    drifted("a comma too many", "a:1,", "expected a key"),
    drifted("a comma too few", "a:1 b:2", "the word '1 b'"),
    drifted("no key", ":1", "expected a key"),
    drifted("no value", "a:", "expected a value"),
    drifted("no colon", "a", "expected : after the key 'a'"),
    drifted("an equals sign", "a=1", "expected : after the key 'a=1'"),
    drifted("a key twice", "a:1,a:2", "the key 'a' twice"),
    drifted("a key over two lines", "a\nb:1", "expected a key"),
    drifted("a control token within", "a:⟦<|image|>⟧", "the control token <|image|>"),
    drifted("a control token in a text", "a:`x⟦<|tool>⟧y`", "not closed"),
    drifted("a text beside a text", "a:`x``y`", "expected ,"),
    drifted("too deep", "a:" + "[" * 70 + "]" * 70, "deep"),
)
CASES = (*TEXTS, *THOUGHTS, *CALLS, *NO_CALLS)
