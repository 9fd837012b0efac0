"""Jinja for templates of strangers: they can read their variables, and nothing else, for a bounded time.

Jinja's own sandbox keeps them from Python. On top of that, here every loop, call, filter and operator counts the time,
and the size of what it is given and makes.
"""

import json
import math
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from functools import wraps
from typing import Any

from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import FILTERS
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

_SECONDS = 5.0
# Characters of a text, or members of a list with all that is in them: more than any context takes.
_SIZE = 4_000_000
_BITS = 1024  # of a number
_FILTERS = (
    "abs capitalize count d default dictsort e escape first float groupby int items join last length list lower map max "
    "min reject rejectattr replace reverse round safe select selectattr sort string title trim unique upper"
)
# They make a text as long as a number says, or read a format that can say one.
_METHODS_OFF = frozenset(
    ("center", "encode", "expandtabs", "format", "format_map", "ljust", "rjust", "translate", "zfill")
)
_DATE = re.compile(r"(%[A-Za-z%]|%-[A-Za-z]|[^%]){0,100}")


class Refusal(Exception):
    """What a template says with raise_exception."""


def _refuse(message: object) -> None:
    raise Refusal(str(message))


def _now(form: str) -> str:
    if not _DATE.fullmatch(form):
        raise SecurityError("strftime_now: a format of a kind that dates do not need")
    return datetime.now().strftime(form)


class _Generation(Extension):
    """{% generation %}: marks the assistant's part for training; here it is what it holds."""

    tags = {"generation"}  # noqa: RUF012 - as Extension declares it

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        return nodes.Scope(parser.parse_statements(("name:endgeneration",), drop_needle=True), lineno=line)


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox, counting. Names of filters with a space in them can't be written in a template."""

    intercepted_binops = frozenset({"+", "*", "**", "%"})

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=[_Generation, loopcontrols],
            optimized=False,  # it would compute constants before anything counts
            finalize=self._sized,
        )
        known = ("range", "namespace", "dict", "joiner", "cycler")
        self.globals = {name: self.globals[name] for name in known}
        self.globals |= {"raise_exception": _refuse, "strftime_now": _now}
        self.filters = {name: self._counted(FILTERS[name]) for name in _FILTERS.split()}
        self.filters |= {"tojson": self._tojson, "a loop": self._loop, "a size": self._sized}
        self._until = math.inf

    def begin(self) -> None:
        """Start the clock."""
        self._until = time.monotonic() + _SECONDS

    def joined(self, parts: Iterable[str]) -> str:
        """The parts of a rendered text as one; SecurityError where they are too long together."""
        found: list[str] = []
        left = _SIZE
        for part in parts:
            self._spend()
            left -= len(part)
            if left < 0:
                raise SecurityError(f"it makes more than {_SIZE} characters")
            found.append(part)
        return "".join(found)

    def _spend(self) -> None:
        """SecurityError once the time is over."""
        if time.monotonic() > self._until:
            raise SecurityError(f"it takes more than {_SECONDS:.0f} s")

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Also false for the methods that make text of any length."""
        return super().is_safe_attribute(obj, attr, value) and not (
            isinstance(obj, str) and attr in _METHODS_OFF
        )

    def wrap_str_format(self, value: Any) -> None:
        """Never: the sandbox's own `format` would come before `is_safe_attribute`."""
        return

    def call(__self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: PYI063
        """Call what a template calls: jinja2's own signature, so that any keyword may be an argument."""
        args = _listed(args)
        __self._check(args, kwargs)
        owner = getattr(__obj, "__self__", None)
        if isinstance(owner, str):
            __self._check_growth(getattr(__obj, "__name__", ""), owner, args)
        return __self._sized(super().call(__context, __obj, *args, **kwargs))

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Compute what a template computes."""
        self._check((left, right), {})
        if operator == "*" and isinstance(left, int) != isinstance(right, int):
            count, what = (left, right) if isinstance(left, int) else (right, left)
            if isinstance(what, str | list | tuple) and count * len(what) > _SIZE:
                raise SecurityError("a text or list too long")
        if operator == "**" and isinstance(right, int) and abs(right) > _BITS:
            raise SecurityError("a power too large")
        if operator == "%" and isinstance(left, str):
            raise SecurityError("% formats no text here")
        return self._sized(super().call_binop(context, operator, left, right))

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree = super()._parse(source, name, filename)
        for loop in tree.find_all(nodes.For):
            loop.iter = _filtered(loop.iter, "a loop")
        for concat in tree.find_all(nodes.Concat):
            concat.nodes = [_filtered(node, "a size") for node in concat.nodes]
        for comparison in tree.find_all(nodes.Compare):
            comparison.expr = _filtered(comparison.expr, "a size")
            for operand in comparison.ops:
                operand.expr = _filtered(operand.expr, "a size")
        return tree

    def _loop(self, items: Iterable[Any]) -> Iterator[Any]:
        for item in items:
            self._spend()
            yield item

    def _sized(self, value: Any) -> Any:
        """The value itself; SecurityError where it is too large."""
        self._spend()
        left, waiting = _SIZE, [value]
        while waiting:
            one = waiting.pop()
            if isinstance(one, str):
                left -= len(one)
            elif isinstance(one, dict):
                waiting += [*one, *one.values()]
            elif isinstance(one, list | tuple | set):
                waiting += one
            elif isinstance(one, int) and one.bit_length() > _BITS:
                raise SecurityError("a number too large")
            left -= 1
            if left < len(waiting):
                raise SecurityError(f"a text or list of more than {_SIZE} parts")
        return value

    def _check(self, positional: tuple[Any, ...], named: Mapping[str, Any]) -> None:
        for value in (*positional, *named.values()):
            self._sized(value)

    def _check_growth(self, name: str, text: str, arguments: tuple[Any, ...]) -> None:
        """Refuse a replacement, or a text between many, that would be too long once made."""
        made = 0
        if name == "replace" and len(arguments) > 1:
            made = text.count(str(arguments[0])) * len(str(arguments[1]))
        if name == "join" and arguments and isinstance(arguments[0], list | tuple | str | dict):
            made = len(text) * len(arguments[0])
        if made > _SIZE:
            raise SecurityError("a text too long")

    def _counted(self, function: Callable[..., Any]) -> Callable[..., Any]:
        name, takes_context = function.__name__.removeprefix("do_"), hasattr(function, "jinja_pass_arg")

        @wraps(function)
        def counted(*positional: Any, **named: Any) -> Any:
            positional = _listed(positional)
            self._check(positional, named)
            value, *rest = positional[takes_context:]
            rest += [named[key] for key in ("old", "new", "d") if key in named]
            if name == "replace":
                self._check_growth(name, str(value), tuple(rest))
            if name == "join" and rest:
                self._check_growth(name, str(rest[0]), (value,))
            return self._sized(function(*positional, **named))

        return counted

    def _tojson(
        self,
        value: Any,
        ensure_ascii: bool = False,
        indent: int | None = None,
        separators: tuple[str, str] | None = None,
        sort_keys: bool = False,
    ) -> str:
        """JSON as transformers' templates expect it: letters as they are, nothing escaped for HTML."""
        self._sized(value)
        if not (indent is None or 0 <= indent <= 16) or len("".join(separators or ())) > 16:
            raise SecurityError("tojson: an indent or separators too long")
        return json.dumps(
            value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
        )


def _listed(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values, iterators run to their end: what nobody has seen can't be weighed."""
    return tuple(list(value) if isinstance(value, Iterator) else value for value in values)


def _filtered(node: nodes.Node, name: str) -> nodes.Expr:
    return nodes.Filter(node, name, [], [], None, None, lineno=node.lineno)
