"""Runs the loops in processes: a program that has imported everything once, and forks.

Worker processes that each import JAX or Grain first would take longer to start than to measure.
The program has no other threads, so that forking is safe. It takes pickles from `Lab` on standard
input and answers on standard output. (`multiprocessing` has a fork server as well; it imports the
user's own script again, and would send the sample to each process.)
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from contextlib import suppress
from typing import IO, Self, cast

from gristmill.tools.doctor.loops import (
    DecodeTrial,
    Material,
    ReadTrial,
    Tally,
    summarize_decodes,
    summarize_reads,
    work,
)

_ARE_READY_SECONDS = 0.05
"""How long a process takes to be forked and to start its threads, at most, on a busy machine."""


class Lab:
    """The program, as a context manager.

    Raises:
        OSError: It cannot be started, or has died.
    """

    def __init__(self, material: Material) -> None:
        self._material = material

    def __enter__(self) -> Self:
        # NumPy's own threads would be copied by a fork, half.
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        self._program = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "gristmill.tools.doctor.lab"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the parent, which ends it
        )
        self._requests = cast("IO[bytes]", self._program.stdin)
        self._answers = cast("IO[bytes]", self._program.stdout)
        try:
            self._send(self._material)
        except BaseException:
            # Ctrl-C while it starts: it has nothing to finish, and nobody leaves this context.
            self._program.kill()
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in (self._requests, self._answers):
            with suppress(OSError):
                pipe.close()
        try:
            self._program.wait(timeout=1)
        except subprocess.TimeoutExpired:
            self._program.kill()
            self._program.wait()

    def read(self, processes: int, threads: int, seconds: float) -> ReadTrial:
        """Measures this many readers."""
        return summarize_reads(self._run("read", processes, threads, seconds), processes)

    def decode(self, processes: int, threads: int, seconds: float, *, reads: bool) -> DecodeTrial:
        """Measures this many threads that decode crops, with a read before each or without."""
        tallies = self._run("both" if reads else "decode", processes, threads, seconds)
        return summarize_decodes(tallies, processes, reads_too=reads)

    def _run(self, what: str, processes: int, threads: int, seconds: float) -> list[Tally]:
        self._send((what, processes, threads, seconds))
        try:
            answer: list[Tally] | OSError = pickle.load(self._answers)
        except (EOFError, pickle.UnpicklingError) as error:
            raise _died() from error
        if isinstance(answer, OSError):
            raise answer
        return answer

    def _send(self, message: object) -> None:
        try:
            pickle.dump(message, self._requests)
            self._requests.flush()
        except BrokenPipeError as error:
            raise _died() from error


def _died() -> OSError:
    return OSError("a measuring process died; is there enough memory?")


def _fork(
    material: Material, what: str, processes: int, threads: int, seconds: float
) -> list[Tally] | OSError:
    """Runs a loop in children, and collects what they did."""
    start = time.monotonic() + _ARE_READY_SECONDS * (1 + processes)
    children: list[tuple[int, int]] = []
    for _ in range(processes):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(reader)
            _child(material, what, threads, (start, start + seconds), writer)
        os.close(writer)
        children.append((child, reader))
    answers: list[list[Tally] | OSError] = []
    for child, reader in children:
        with os.fdopen(reader, "rb") as pipe:
            answers.append(pickle.load(pipe))
        os.waitpid(child, 0)
    tallies: list[Tally] = []
    for answer in answers:
        if isinstance(answer, OSError):
            return answer
        tallies += answer
    return tallies


def _child(
    material: Material, what: str, threads: int, span: tuple[float, float], writer: int
) -> None:
    status = 1
    try:
        try:
            answer: list[Tally] | OSError = work(material, threads, what, *span)
        except OSError as error:
            answer = OSError(*error.args)
        with os.fdopen(writer, "wb") as pipe:
            pickle.dump(answer, pipe)
        status = 0
    finally:
        os._exit(status)


def serve() -> None:
    """Answers until standard input ends."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    try:
        material: Material = pickle.load(requests)
        while True:
            pickle.dump(_fork(material, *pickle.load(requests)), answers)
            answers.flush()
    except (EOFError, pickle.UnpicklingError, BrokenPipeError, KeyboardInterrupt):
        return  # whoever asked has ended, maybe in the middle of a request


if __name__ == "__main__":
    serve()
