"""Measure an artifact or a checkpoint on held-out cases, decoded greedily by the package's own engine.

    python check.py [MODEL] [--count 300] [--seed 2026] [--device numpy]

Gives the shares of right tools, whole calls, sentences and answers, with and without the tool grammar, and what was
missed. All cases are submitted at once; the engine merges them.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from cases import PassageCase, ToolCase, passage_cases, tool_cases

from doppler_core.engine.engine import Engine
from doppler_core.engine.request import GenerateRequest, GenerateResult
from doppler_core.settings import EngineSettings
from doppler_core.text.chat.messages import Message, Text, ToolCall, ToolResult
from doppler_plugins.opening import open_engine

_LONGEST = 120  # tokens of an answer; none of the right ones has as many


@dataclass(frozen=True)
class Found:
    """What was right of one case, and what was said."""

    right_tool: bool
    whole: bool
    said: str


def calls(engine: Engine, cases: Sequence[ToolCase], constrained: bool) -> list[Found]:
    """The first turn: exactly one call, its name, its arguments."""
    requests = [
        GenerateRequest(
            (_user(case.request),), tools=case.tools, constrain_tools=constrained, max_tokens=_LONGEST
        )
        for case in cases
    ]
    found = []
    for case, result in zip(cases, _run(engine, requests), strict=True):
        names = [call.name for call in result.tool_calls]
        whole = names == [case.name] and dict(result.tool_calls[0].arguments) == dict(case.arguments)
        said = " ".join(f"{call.name}({dict(call.arguments)})" for call in result.tool_calls) or result.text
        found.append(Found(names[:1] == [case.name], whole, said))
    return found


def sentences(engine: Engine, cases: Sequence[ToolCase]) -> list[Found]:
    """The second turn, after the right call and its result."""
    requests = [
        GenerateRequest(
            (
                _user(case.request),
                Message("assistant", (ToolCall(case.name, case.arguments, "call"),)),
                Message("tool", (ToolResult(case.result, case.name, "call"),)),
            ),
            tools=case.tools,
            max_tokens=_LONGEST,
        )
        for case in cases
    ]
    results = _run(engine, requests)
    return [
        Found(True, result.text == case.sentence, result.text)
        for case, result in zip(cases, results, strict=True)
    ]


def answers(engine: Engine, cases: Sequence[PassageCase]) -> list[Found]:
    """Answers to questions on passages."""
    requests = []
    for case in cases:
        system = (Message("system", (Text(case.system),)),) if case.system else ()
        requests.append(GenerateRequest((*system, _user(case.user)), max_tokens=_LONGEST))
    results = _run(engine, requests)
    return [
        Found(True, result.text == case.answer, result.text)
        for case, result in zip(cases, results, strict=True)
    ]


def share(found: Sequence[Found]) -> float:
    """How many were wholly right."""
    return sum(one.whole for one in found) / len(found)


def tool_share(found: Sequence[Found]) -> float:
    """How many chose the right tool."""
    return sum(one.right_tool for one in found) / len(found)


def _user(text: str) -> Message:
    return Message("user", (Text(text),))


def _run(engine: Engine, requests: Sequence[GenerateRequest]) -> list[GenerateResult]:
    handles = [engine.submit(request) for request in requests]
    return [handle.result() for handle in handles]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("model", nargs="?", default="demo-chat")
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--seed", type=int, default=2026)
    parser.add_argument("--device", default="numpy")
    args = parser.parse_args()
    tools, passages = tool_cases(args.count, args.seed), passage_cases(args.count, args.seed)
    with open_engine(args.model, EngineSettings(device=args.device)) as engine:
        for constrained in (False, True):
            found = calls(engine, tools, constrained)
            print(
                f"{'with' if constrained else 'without'} grammar: right tool {tool_share(found):.3f}, whole call {share(found):.3f}"
            )
            _print_missed(
                [
                    (case.request, f"{case.name}({dict(case.arguments)})", one)
                    for case, one in zip(tools, found, strict=True)
                ]
            )
        found = sentences(engine, tools)
        print(f"result sentence {share(found):.3f}")
        _print_missed(
            [(str(case.result), case.sentence, one) for case, one in zip(tools, found, strict=True)]
        )
        found = answers(engine, passages)
        first = [one for case, one in zip(passages, found, strict=True) if case.asked_first]
        print(
            f"passage answer {share(found):.3f}, question before the passage {share(first):.3f} of {len(first)}"
        )
        _print_missed([(case.user, case.answer, one) for case, one in zip(passages, found, strict=True)])


def _print_missed(rows: Sequence[tuple[str, str, Found]]) -> None:
    for asked, wanted, found in [row for row in rows if not row[2].whole][:12]:
        print(f"  {asked!r}\n    wanted {wanted!r}\n    said   {found.said!r}")


if __name__ == "__main__":
    main()
