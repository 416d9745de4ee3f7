"""What users of other libraries write first, each answered with what to write here."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

_ATTRIBUTES: Final = {
    "take": "the first n elements are itertools.islice(ds, n), and the first n rows rows=range(n)",
    "skip": "write rows=range(n, total), or restore a state with it.set_state(state)",
    "repeat": "write epochs=n, or epochs=None for ever",
    "shuffle": "write shuffle=gm.Shuffle(seed=42)",
    "select": "write rows=[3, 1, 2]",
    "shard": "write shard_options=grain.sharding.ShardOptions(index, count)",
    "train_test_split": 'write split=gm.Split("train", {"train": 0.9, "valid": 0.1})',
    "set_epoch": "write epochs=None: each epoch of gm.Shuffle has an order of its own",
}
_OPTIONS: Final = {
    "num_workers": "rows are decoded by native threads: write read=gm.ReadOptions(num_threads=8)",
    "num_threads": "write read=gm.ReadOptions(num_threads=8)",
    "prefetch": "write read=gm.ReadOptions(prefetch_batches=4)",
    "prefetch_factor": "write read=gm.ReadOptions(prefetch_batches=4)",
    "seed": "write shuffle=gm.Shuffle(seed=42)",
    "drop_last": "write drop_remainder=True",
    "sample_rate": "write audio=gm.Audio(sample_rate=32_000)",
    "num_epochs": "write epochs=10, or None for ever",
}

if TYPE_CHECKING:

    class Guided:
        """To type checkers a data set has none of these."""

else:

    class Guided:
        """Raises `TypeError` or `AttributeError` with what to write instead."""

        def __new__(cls, *_args: Any, **options: Any) -> Self:
            """Refuses options of other libraries.

            The signature of a class stays that of `__init__`, nearer in the order of bases.
            """
            for name in options:
                if name in _OPTIONS and name not in _parameters(cls):
                    raise TypeError(f"{cls.__name__} has no option {name}=: {_OPTIONS[name]}")
            return super().__new__(cls)

        def __bool__(self) -> bool:
            return True

        def __len__(self) -> int:
            raise TypeError(
                f"{type(self).__name__} is a stream and has no len(): write ds.rows_per_epoch(), "
                "or ds.steps_per_epoch() for batches"
            )

        def __getitem__(self, index: object) -> Any:
            raise TypeError(
                f"{type(self).__name__} is a stream and has no elements by index: write "
                "next(iter(ds)) for the first one, or gm.ArrowDataSource(paths)[0] for any row"
            )

        def __next__(self) -> Any:
            raise TypeError(
                f"{type(self).__name__} is no iterator: write it = iter(ds), and then next(it)"
            )

        def __getattr__(self, name: str) -> Any:
            told = f": {_ATTRIBUTES[name]}" if name in _ATTRIBUTES else ""
            raise AttributeError(
                f"{type(self).__name__!r} object has no attribute {name!r}{told}",
                name=name,
                obj=self,
            )


def _parameters(cls: type) -> frozenset[str]:
    """The names of the options that a class takes."""
    code: Any = getattr(cls.__init__, "__code__", None)
    return frozenset() if code is None else frozenset(code.co_varnames[: _n_named(code)])


def _n_named(code: Any) -> int:
    return code.co_argcount + code.co_kwonlyargcount


class Closing:
    """An iterator in a `with` statement, which closes it at the end."""

    def close(self) -> None:
        """Ends all work."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()
