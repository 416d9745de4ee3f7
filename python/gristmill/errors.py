"""The exceptions of gristmill. Input and output keep Python's own (`OSError` and subclasses)."""

from __future__ import annotations

from typing import Any

from gristmill import troubleshooting


class GristmillError(Exception):
    """The base class of gristmill's exceptions.

    Keyword arguments become attributes. They are pickled too, so that they cross the process
    boundary of Grain's workers.
    """

    def __init__(self, text: str = "", **attributes: Any) -> None:
        super().__init__(text)
        troubleshooting.explain(self)
        self.__dict__.update(attributes)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), self.args, self.__dict__)


class CorruptShardError(GristmillError):
    """A shard is not the Arrow IPC or Parquet that it claims to be: write it again or leave it out.

    Attributes:
        shard: Path of the shard.
        message: Index of the IPC message, the schema being 0; `None` if it is no single one.
        byte: Byte offset in the shard; `None` if not known.
    """

    shard: str | None = None
    message: int | None = None
    byte: int | None = None


class SchemaError(GristmillError):
    """A column is missing or of a type that does not fit: change the options.

    Attributes:
        column: The column, as a dotted path; empty if it is no single one.
    """

    column: str = ""


class DecodeError(GristmillError):
    """One row's audio cannot be decoded: write the row again, or exclude it.

    Attributes:
        shard: Path of the shard; `None` for bytes that are from no shard.
        row: Index of the row in its shard, likewise.
        codec: As in `AudioInfo`; `None` if the format is unknown.
        reason: What is wrong, in one word for programs to compare, such as `"truncated"`.
    """

    shard: str | None = None
    row: int | None = None
    codec: str | None = None
    reason: str = ""


class UnsupportedCodecError(DecodeError):
    """The row's audio is in a known format that gristmill does not decode."""


class NoUsableRowsError(DecodeError):
    """With `on_error="skip"`, not one row of a whole epoch could be used.

    Attributes:
        shard: Of the first of them.
        row: Likewise.
        codec: Likewise.
        reason: The most common one.
    """


class LimitError(GristmillError):
    """A limit would have been exceeded: raise the limit, or leave the data out.

    Attributes:
        shard: Path of the shard; `None` for bytes that are from no shard.
        row: Index of the row in its shard, likewise.
        codec: As in `AudioInfo`; `None` if it is not known yet.
        limit: The field of `gm.Limits`, such as `"max_seconds"`; or `"memory_budget"`, of
            `gm.ReadOptions`; or `"max_bad_rows"`; or a fixed limit, such as `"resampling_ratio"`.
    """

    shard: str | None = None
    row: int | None = None
    codec: str | None = None
    limit: str = ""


class SourceNotFoundError(GristmillError):
    """A Grain pipeline has no source of gristmill in this process: see `gm.verdict`."""


class InternalError(GristmillError):
    """A bug in gristmill. Please report it, with the message."""
