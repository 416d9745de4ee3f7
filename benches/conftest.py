"""What all benches share: options, turns between peers, fresh processes, figures with marks.

pytest-benchmark keeps, groups, prints and compares the times. A round is measured elsewhere (in
turns with the peers' rounds, and mostly in another process), so its clock is told what it took.
"""

from __future__ import annotations

import multiprocessing
import os
import statistics
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

Job = Callable[[int], "float | dict[str, Any]"]
"""Does its work for the k-th time. Gives the seconds of one row, crop, ..., or those as "seconds"
beside other figures by name; what is no number is kept for the test."""


class Clock:
    """A timer for pytest-benchmark that shows what rounds took."""

    __name__ = "told"
    now = 0.0

    def __call__(self) -> float:
        return self.now


CLOCK = Clock()


@dataclass
class Figure:
    """A value beside the times, and the mark that it should keep to."""

    test: str
    name: str
    value: float
    spread: str = ""
    at_least: float | None = None
    at_most: float | None = None

    @property
    def is_missed(self) -> bool:
        too_low = self.at_least is not None and self.value < self.at_least
        return too_low or (self.at_most is not None and self.value > self.at_most)

    def __str__(self) -> str:
        limits = (("at least", self.at_least), ("at most", self.at_most))
        marks = [f"{word} {mark:.4g}" for word, mark in limits if mark is not None]
        text = f"{self.value:.4g}{self.spread} {self.name}"
        if not marks:
            return text
        return f"{text} ({marks[0]}: {'MISSED' if self.is_missed else 'met'})"


FIGURES = pytest.StashKey[list[Figure]]()
GROUPS = pytest.StashKey[dict[Any, dict[str, Any]]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("gristmill")
    group.addoption("--quick", action="store_true", help="less data, and fewer rounds")
    group.addoption("--marks", action="store_true", help="fail where a mark is missed")
    folder = Path(tempfile.gettempdir()) / "gristmill-bench"
    group.addoption("--data", type=Path, default=folder, help="keep shards here [%(default)s]")
    group.addoption("--plots", type=Path, help="write plots into this folder")


def pytest_configure(config: pytest.Config) -> None:
    config.stash[FIGURES], config.stash[GROUPS] = [], {}
    data = config.getoption("data")
    data.mkdir(parents=True, exist_ok=True)
    # Sidecars, also those of other processes.
    os.environ["GRISTMILL_CACHE"] = str(data / "cache")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(pytest.mark.benchmark(timer=CLOCK))
        item.add_marker(pytest.mark.timeout(0))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    figures = config.stash[FIGURES]
    if figures and not config.getoption("benchmark_disable"):
        terminalreporter.section("figures")
        for figure in figures:
            _, _, test = figure.test.partition("::")
            terminalreporter.write_line(f"{test}: {figure}", red=figure.is_missed)


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Iterator[None]:
    result = yield
    if pyfuncitem.config.getoption("marks"):
        own = [f for f in pyfuncitem.config.stash[FIGURES] if f.test == pyfuncitem.nodeid]
        missed = [str(figure) for figure in own if figure.is_missed]
        if missed:
            pytest.fail("; ".join(missed), pytrace=False)
    return result


@pytest.fixture(scope="session")
def data(request: pytest.FixtureRequest) -> Path:
    """Where shards and recordings are kept from one run to the next."""
    return request.config.getoption("data")


@pytest.fixture(scope="session")
def plots_folder(request: pytest.FixtureRequest) -> Path | None:
    """Where plots are written, if they are."""
    folder: Path | None = request.config.getoption("plots")
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def size(request: pytest.FixtureRequest) -> Callable[[Any, Any, Any], Any]:
    """Picks what is used in full, with `--quick`, and with `--benchmark-disable`."""
    config = request.config

    def pick(full: Any, quick: Any, least: Any) -> Any:
        if config.getoption("benchmark_disable"):
            return least
        return quick if config.getoption("quick") else full

    return pick


@pytest.fixture(scope="session")
def fresh(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Calls a function in a process of its own; here where nothing is measured."""

    def call(function: Callable[..., Any], *arguments: Any) -> Any:
        if request.config.getoption("benchmark_disable"):
            return function(*arguments)
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            return pool.submit(function, *arguments).result()

    return call


@pytest.fixture
def figure(benchmark: Any, request: pytest.FixtureRequest) -> Callable[..., None]:
    """Keeps a value beside the times; with `--marks`, a test fails if a mark is missed."""

    def keep(name: str, value: float, **options: Any) -> None:
        benchmark.extra_info[name] = value
        request.config.stash[FIGURES].append(Figure(request.node.nodeid, name, value, **options))

    return keep


@dataclass
class Turns:
    """The jobs of a group, one after the other in each round, each in its own test."""

    benchmark: Any
    request: pytest.FixtureRequest
    figure: Callable[..., None]
    times: dict[str, Any] = field(default_factory=dict)

    def __call__(
        self,
        prepare: Callable[[str], Job],
        *,
        rounds: int,
        than: str | None = None,
        limits: dict[str, dict[str, float]] | None = None,
        **marks: float | None,
    ) -> None:
        """Gives this test's job its times, after all jobs of its group had theirs in turns.

        Args:
            prepare: Checks the results of a job, and gives what is to be timed. The tests of a
                group are alike but for their parameter `job`.
            rounds: How often each is done.
            than: The job that this one's times are divided by, round by round.
            limits: Marks for other figures, by their names.
            **marks: `at_least` or `at_most`, for the median of these ratios.
        """
        node = self.request.node
        job = node.callspec.params["job"]
        others = {k: v for k, v in node.callspec.params.items() if k != "job"}
        key = (node.path, node.originalname, *others.items())
        groups = self.request.config.stash[GROUPS]
        if key not in groups:
            groups[key] = take_turns(self._selected(others), prepare, rounds)
        self.times = groups[key]
        of = self.times[job]
        if isinstance(of, BaseException):
            raise of
        self.benchmark.group = ", ".join(
            [node.originalname.removeprefix("test_"), *map(str, others.values())]
        )
        seconds = iter([took["seconds"] for took in of])

        def advance() -> None:
            CLOCK.now += next(seconds)

        self.benchmark.pedantic(advance, rounds=len(of))
        for name, first in of[0].items():
            if name != "seconds" and isinstance(first, (int, float)):
                median = statistics.median(took[name] for took in of)
                self.figure(name, median, **(limits or {}).get(name, {}))
        if than not in (None, job) and isinstance(self.times.get(than), list):
            pairs = zip(of, self.times[than], strict=True)
            ratios = [its["seconds"] / base["seconds"] for its, base in pairs]
            self.benchmark.extra_info["ratios"] = ratios
            spread = f" ({min(ratios):.3g} to {max(ratios):.3g})"
            name, median = f"times as long as {than}", statistics.median(ratios)
            self.figure(name, median, spread=spread, **marks)

    def _selected(self, others: dict[str, Any]) -> list[str]:
        """The jobs of this group that were not deselected."""
        node = self.request.node
        alike = [
            item.callspec.params
            for item in self.request.session.items
            if getattr(item, "originalname", None) == node.originalname and item.path == node.path
        ]
        return [p["job"] for p in alike if {k: v for k, v in p.items() if k != "job"} == others]


def take_turns(names: list[str], prepare: Callable[[str], Job], rounds: int) -> dict[str, Any]:
    """What each round of each job came to, or what kept the job from being run."""
    jobs: dict[str, Job] = {}
    found: dict[str, Any] = {name: [] for name in names}
    for k in range(-1, rounds):
        for name in names:
            if not isinstance(found[name], list):
                continue
            try:
                if k < 0:
                    jobs[name] = prepare(name)
                else:
                    took = jobs[name](k)
                    found[name].append(took if isinstance(took, dict) else {"seconds": took})
            except (Exception, pytest.skip.Exception) as error:  # noqa: BLE001 # for its own test
                found[name] = error
    return found


@pytest.fixture
def turns(benchmark: Any, request: pytest.FixtureRequest, figure: Callable[..., None]) -> Turns:
    """Runs the jobs of a group in turns."""
    return Turns(benchmark, request, figure)
