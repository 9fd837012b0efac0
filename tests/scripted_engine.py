"""An engine whose device is a script: how long a request takes, and who prepared and stepped it."""

import threading
from collections.abc import Sequence

from doppler_core.engine.engine import Engine
from doppler_core.engine.request import Capabilities, Delta, EmbedRequest
from doppler_core.errors import DeviceLostError, InputError
from doppler_core.plan.op import Plan


class Panic(BaseException):
    """What `except Exception` does not see."""


class ScriptedJob:
    """A job of so many steps; a negative number fails while it is prepared."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def done(self) -> bool:
        return self.left == 0

    def result(self) -> str:
        return "done"

    def news(self) -> tuple[Delta, ...]:
        return ()

    def cancel(self) -> None:
        self.left = 0


class ScriptedDriver:
    """Steps every job by one, as long as `gate` is open, and prepares them while `desk` is; records who stepped together."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.gate.set()
        self.steps: list[int] = []
        self.fail = False
        self.fault: BaseException = DeviceLostError("gone")
        self.preparing: set[int] = set()
        self.stepping: set[int] = set()
        self.asked: list[str] = []
        self.begun = threading.Event()
        self.desk = threading.Event()
        self.desk.set()
        self.at_desk = threading.Event()

    def prepare(self, request: EmbedRequest, submitted: float) -> ScriptedJob:
        self.preparing.add(threading.get_ident())
        self.asked.append(request.texts[0])
        self.at_desk.set()
        self.desk.wait(5)
        if request.texts[0] == "panic":
            raise Panic("no Exception, as the panics of libraries in Rust")
        steps = int(request.texts[0])
        if steps < 0:
            raise InputError("negative")
        return ScriptedJob(steps)

    def step(self, jobs: Sequence[ScriptedJob]) -> None:
        self.stepping.add(threading.get_ident())
        self.begun.set()
        self.gate.wait(5)
        if self.fail:
            raise self.fault
        self.steps.append(len(jobs))
        for job in jobs:
            job.left -= 1

    def warmup(self) -> None:
        self.steps.append(0)

    def count_tokens(self, text: str, prompt_name: str | None = None, **fields: object) -> int:
        return len(text)


class Opened:
    """An engine on a scripted driver, and whether its device was released."""

    def __init__(self) -> None:
        self.driver = ScriptedDriver()
        self.released = threading.Event()
        self.engine = Engine(
            model_id="scripted",
            identity="0",
            capabilities=Capabilities(embeds=True),
            plan=Plan("scripted", {}, {}),
            driver=self.driver,
            device="none",
            memory_bytes=0,
            closing=self.released.set,
        )


def ask(steps: int) -> EmbedRequest:
    return EmbedRequest((str(steps),))
