"""A copy of this process that answers questions, and that the system ends when one takes too much.

Compiled code such as a query engine cannot be interrupted, and may end its process with a stack
overflow. In a copy it can do no harm: the copy gets limits on processor time and memory from the
system. It shares the memory of this process, so that a large graph is not loaded again.
"""

from __future__ import annotations

import contextlib
import gc
import os
import pickle
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from fedkg.limits import limit, out_of_limit

Found = TypeVar("Found")

LENGTH = 8
"""Bytes before each message that say how long it is."""


class Crashed(Exception):
    """The copy ended while it worked on a question; mostly because of a stack overflow."""


class ForkedWorker:
    """Answers questions one after the other, each within limits on time and memory.

    Outside Linux the questions are answered in this process, without limits.

    Args:
        answer: gives the answer to a question. It sees this process as it is at the first question.
            Questions, answers and exceptions must be fit for pickle.
    """

    def __init__(self, answer: Callable[[Any], Any]) -> None:
        self._answer = answer
        self._pid = self._parent = 0
        self._questions = self._answers = -1

    def ask(self, question: Any, what: str, *, name: str = "query") -> Any:
        """The answer to a question. `Any`: whatever `answer` takes and gives.

        Exceptions of `answer` are raised here, too.

        Args:
            question: the argument of `answer`.
            what: names the question in messages.
            name: the limit on processor time, by its name.

        Raises:
            LimitError: the answer takes too much time or memory.
            Crashed: the question ended the copy.
        """
        if sys.platform != "linux":
            return self._answer(question)
        if not self._pid or self._parent != os.getpid():
            self._start()
        try:
            _send(self._questions, (limit(name), limit("memory"), question))
            good, found = _receive(self._answers)
        except (EOFError, BrokenPipeError):
            raise self._describe_end(what, name) from None
        except BaseException:  # Ctrl-C: nobody will read the answer
            self.close()
            raise
        if good:
            return found
        raise out_of_limit("memory", what) if isinstance(found, MemoryError) else found

    def close(self) -> None:
        """End the copy; another question starts a new one."""
        if self._pid and self._parent == os.getpid():  # other copies of this process share it
            os.kill(self._pid, signal.SIGKILL)
            self._wait()

    __del__ = close

    def _start(self) -> None:
        questions, self._questions = os.pipe()
        self._answers, answers = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", DeprecationWarning
            )  # other threads do not exist in the copy
            self._parent = os.getpid()
            self._pid = os.fork()
        if not self._pid:
            os.close(self._questions)
            os.close(self._answers)
            _serve(questions, answers, self._answer)
        os.close(questions)
        os.close(answers)

    def _wait(self) -> int:
        """The number of the signal that ended the copy; 0 for none."""
        _, status = os.waitpid(self._pid, 0)
        os.close(self._questions)
        os.close(self._answers)
        self._pid = 0
        return os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0

    def _describe_end(self, what: str, name: str) -> Exception:
        """Why the copy has ended."""
        match self._wait():
            case signal.SIGPROF | signal.SIGXCPU:
                return out_of_limit(name, what)
            case signal.SIGABRT | signal.SIGKILL:  # memory that was not to be had
                return out_of_limit("memory", what)
            case _:
                return Crashed(
                    f"{what} ended unexpectedly, probably because it is nested too deeply"
                )


def run_apart(work: Callable[[], Found], what: str, *, name: str = "query") -> Found:
    """What `work` gives, from a copy of this process. Raises as `ForkedWorker.ask` does."""
    worker = ForkedWorker(lambda _: work())
    try:
        found: Found = worker.ask(None, what, name=name)
        return found
    finally:
        worker.close()


def _serve(questions: int, answers: int, answer: Callable[[Any], Any]) -> NoReturn:
    """Answer questions until there are no more."""
    import resource

    code = 1
    with contextlib.suppress(BaseException):
        gc.disable()  # to look for garbage would copy all memory
        for number in (signal.SIGINT, signal.SIGPROF):
            signal.signal(number, signal.SIG_DFL)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # what compiled code says when it fails
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        while True:
            seconds, memory, question = _receive(questions)
            signal.setitimer(signal.ITIMER_PROF, seconds)
            _, most = resource.getrlimit(resource.RLIMIT_AS)
            allowed = _size() + memory
            resource.setrlimit(
                resource.RLIMIT_AS, (allowed if most < 0 else min(allowed, most), most)
            )
            try:
                found = True, answer(question)
            except Exception as error:  # noqa: BLE001  raised again by the one who asks
                found = False, error
            _send(answers, found)
    os._exit(code)


def _size() -> int:
    """Bytes of the address space of this process."""
    pages = int(Path("/proc/self/statm").read_bytes().split()[0])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _send(pipe: int, content: Any) -> None:
    body = pickle.dumps(content, protocol=pickle.HIGHEST_PROTOCOL)
    left = memoryview(len(body).to_bytes(LENGTH, "big") + body)
    while left:
        left = left[os.write(pipe, left) :]


def _receive(pipe: int) -> Any:
    return pickle.loads(_read(pipe, int.from_bytes(_read(pipe, LENGTH), "big")))


def _read(pipe: int, count: int) -> bytes:
    parts = bytearray()
    while len(parts) < count:
        part = os.read(pipe, min(count - len(parts), 1 << 20))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)
