"""Decoding as a transformation of Grain's, for rows that come from elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self, cast

import grain
import numpy as np

from gristmill import _core, checks
from gristmill.audio import as_bytes
from gristmill.crops import EventCrop, RandomCrop, Windows
from gristmill.errors import SchemaError
from gristmill.options import Audio, ReadOptions, check_root
from gristmill.signature import short

_RETRIES = ReadOptions().retries
_WRITE_AUDIO = "gm.DecodeAudio(gm.Audio(sample_rate=16_000))"

if TYPE_CHECKING:

    class _Transform(grain.transforms.Map, grain.transforms.RandomMap):
        """What type checkers know: which of the two it is depends on the crop."""

        def map(self, element: Any) -> Any: ...
        def random_map(self, element: Any, rng: np.random.Generator) -> Any: ...

else:
    _Transform = object


class DecodeAudio(_Transform):
    """Decodes encoded audio in elements of a Grain pipeline, whatever their source.

    `gm.DecodeAudio(audio)` is a `grain.transforms.Map`, for `.map(...)` and for `operations=[...]`
    of a `DataLoader`; where the crop is random it is a `grain.transforms.RandomMap`, for
    `.random_map(...)`:

        dataset = source.map(gm.DecodeAudio(gm.Audio(sample_rate=16_000)))
        dataset = source.seed(1).random_map(gm.DecodeAudio(gm.Audio(crop=gm.RandomCrop(seconds=5))))

    The column may contain bytes, an array of uint8, or `{"bytes": ..., "path": ...}` as `datasets`
    has it, where the bytes may be null if `audio.root` says where paths lead. It becomes samples of
    `Audio.dtype`, `(frames,)` for mono, else `(channels, frames)`. Without a crop they equal
    `gm.decode` of the same bytes. Other columns stay as they are, and the input element is not
    changed.

    A random crop is drawn by Grain's generator for the element, and so by the pipeline's seed and
    the element's place in it, over all epochs; `RandomCrop.seed` is not used. It runs in the thread
    that calls it, without the GIL.

    Args:
        audio: What to decode, and how; `None` is whole recordings, mono, at their own rate.
        key: The column; the elements are dictionaries.

    Raises:
        DecodeError: By an element whose audio is null or damaged.
        LimitError: By an element whose audio asks for more than `audio.limits` allow.
        SchemaError: By an element without the column, or with anything else in it.
        OSError: `audio.root` is no folder; or the storage fails, by an element.
    """

    audio: Audio
    key: str

    def __new__(cls, audio: Audio | None = None, key: str = "audio") -> Self:  # noqa: ARG004
        """A transformation, or a random one."""
        is_random = isinstance(audio, Audio) and isinstance(audio.crop, RandomCrop)
        kind: Any = _DecodeRandomCrop if is_random else _DecodeAudio
        return object.__new__(kind)

    def __init__(self, audio: Audio | None = None, key: str = "audio") -> None:
        found = checks.instance("audio", audio, Audio, write=_WRITE_AUDIO, none=True) or Audio()
        if isinstance(found.crop, (Windows, EventCrop)):
            raise ValueError(
                "DecodeAudio makes one element of one, and has no columns of events: write "
                "gm.Audio(crop=gm.RandomCrop(seconds=5)), or read windows and events with "
                "gm.ArrowIterDataset"
            )
        self.audio = found
        self.key = checks.text("key", key, write='key="audio"')
        if found.column not in (None, key):
            raise ValueError(
                f"audio is for the column {found.column!r}, and key is {key!r}: write "
                f"gm.DecodeAudio(..., key={found.column!r})"
            )
        self._spec: _core.AudioSpec = _core.AudioSpec(found)
        self._recordings: _core.Recordings = _core.Recordings(
            check_root("root", found.root), retries=_RETRIES
        )

    def __reduce__(self) -> tuple[type[DecodeAudio], tuple[Audio, str]]:
        return DecodeAudio, (self.audio, self.key)

    def __repr__(self) -> str:
        key = "" if self.key == "audio" else f", key={self.key!r}"
        return f"DecodeAudio({short(self.audio)}{key})"

    def _decoded(self, element: Any, draw: int) -> dict[str, Any]:
        if not isinstance(element, dict) or self.key not in element:
            raise SchemaError(
                f"DecodeAudio(key={self.key!r}) takes dictionaries with that column, and got "
                f"{checks.shown(element)}",
                column=self.key,
            )
        columns = cast("dict[str, Any]", element)
        samples = _core.decode_row(
            self._bytes(columns[self.key]),
            self._spec,
            draw=draw,
            max_missing=self.audio.max_missing,
        )
        return {**columns, self.key: samples}

    def _bytes(self, value: Any) -> bytes | bytearray:
        path: object = None
        if isinstance(value, dict):
            fields = cast("dict[str, Any]", value)
            value, path = fields.get("bytes"), fields.get("path")
        if isinstance(value, np.ndarray):
            array = cast("np.ndarray[Any, Any]", value)
            # NumPy's 0-d object arrays are what some sources make of bytes.
            value = array.item() if array.dtype == object and array.ndim == 0 else array
        if value is None:
            named = path if isinstance(path, str) else None
            return self._recordings.read(named, limits=self.audio.limits)
        if isinstance(value, (bytes, bytearray, memoryview, np.ndarray)):
            return as_bytes(cast("bytes", value))
        raise SchemaError(
            f"DecodeAudio takes encoded audio as bytes, an array of uint8, or a dictionary with "
            f"'bytes'; the column {self.key!r} holds {checks.shown(value)}",
            column=self.key,
        )


class _DecodeAudio(DecodeAudio, grain.transforms.Map):
    def map(self, element: Any) -> Any:
        return self._decoded(element, 0)


class _DecodeRandomCrop(DecodeAudio, grain.transforms.RandomMap):
    def random_map(self, element: Any, rng: np.random.Generator) -> Any:
        return self._decoded(element, int(rng.integers(0, 2**64, dtype=np.uint64)))
