"""The folder that is written to: what an earlier run left, and what makes it a data set.

While shards are written, `.pack` holds the plan's hash, a record for each shard that is whole, and
the shard that is not. At the end `pack.json` says what was packed, and `.pack` is gone.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, Self, cast

from gristmill.tools.pack.report import BAD_FILES, BadFile, PackedShard

RUNNING = ".pack"
DONE = "pack.json"
_PLAN = "plan.json"
_SPLITS = ("train", "validation", "test")
_OURS = re.compile(rf"((?:{'|'.join(_SPLITS)})/)?data-\d{{5,}}-of-\d{{5,}}\.arrow")
_DATASETS = ("state.json", "dataset_info.json", "dataset_dict.json")


class PackFolder:
    """The folder of shards, locked against other processes.

    Args:
        folder: Made if need be.
        overwrite: Removes what an earlier run has left or finished.

    Raises:
        OSError: It cannot be written to.
        ValueError: It holds shards that `pack` did not write, or another process writes there.
    """

    def __init__(self, folder: Path, *, overwrite: bool) -> None:
        self.folder = folder
        self._running = folder / RUNNING
        is_ours = self._running.exists() or (folder / DONE).exists()
        if not is_ours and folder.exists() and (found := next(_shards_in(folder), None)):
            raise ValueError(
                f"{folder} contains shards that pack did not write, such as {found}; give an empty "
                "folder"
            )
        self._lock = -1
        try:
            self._running.mkdir(parents=True, exist_ok=True)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._lock = os.open(self._running / "lock", flags, 0o666)
        except OSError:
            if overwrite or self.finished() is None:
                raise
            return  # nothing is written to a folder that is complete
        try:
            self._take_lock()
            if overwrite:
                self._empty()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Unlocks the folder. A folder that was complete before is left as it was."""
        if self._lock < 0:
            return
        if (self.folder / DONE).exists() or not any(self._running.glob("*.json")):
            shutil.rmtree(self._running, ignore_errors=True)
        os.close(self._lock)
        self._lock = -1

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # One that has just finished has removed the file that is locked.
            same = (self._running / "lock").stat().st_ino == os.fstat(self._lock).st_ino
        except (BlockingIOError, FileNotFoundError):
            same = False
        if not same:
            os.close(self._lock)
            self._lock = -1
            raise ValueError(f"another gristmill pack writes to {self.folder}; wait until it ends")

    def finished(self) -> dict[str, Any] | None:
        """What `pack.json` says, if all is done."""
        return _json(self.folder / DONE)

    def begin(self, digest: str, files: Iterable[str]) -> None:
        """Begins, or continues what has the same plan, with these shards.

        Raises:
            ValueError: It holds a part of something else, or what another has written is in the
                way.
        """
        for file in files:
            path = self.folder / file
            is_other = path.parent != self.folder and _is_packed(path.parent)
            if is_other or (path.exists() and not self._record(file).exists()):
                raise ValueError(
                    f"{path.parent if is_other else path} exists, and this pack did not write "
                    "it; move it elsewhere, or give another folder"
                )
        plan = _json(self._running / _PLAN)
        if plan is None:
            _write(self._running / _PLAN, {"plan": digest})
        elif plan.get("plan") != digest:
            raise ValueError(
                f"{self.folder} contains part of another pack: its source or options differ; "
                "start over with --overwrite, or give another folder"
            )

    def partial(self) -> Path:
        """Where a shard is written until it is whole."""
        return self._running / "shard.partial"

    def keep(self, shard: PackedShard, bad: Iterable[BadFile], stamp: str) -> None:
        """Gives the shard that is whole its name. Its record is there before."""
        record = {"stamp": stamp, "shard": asdict(shard), "bad": [asdict(one) for one in bad]}
        path = self.folder / shard.file
        try:
            _write(self._record(shard.file), record)
            path.parent.mkdir(exist_ok=True)
            self.partial().replace(path)
        except OSError:
            # On a full disk it would take what little room there is.
            with contextlib.suppress(OSError):
                self.partial().unlink(missing_ok=True)
            raise
        _sync(path.parent)
        _sync(self.folder)

    def kept(self, file: str, stamp: str) -> tuple[PackedShard, list[BadFile]] | None:
        """A shard that an earlier run has kept of recordings with this stamp."""
        record = _json(self._record(file))
        try:
            if record is None or record["stamp"] != stamp:
                return None
            shard = PackedShard(**record["shard"])
            if (self.folder / file).stat().st_size != shard.bytes:
                return None
            return shard, [BadFile(**bad) for bad in record["bad"]]
        except (OSError, KeyError, TypeError):
            return None

    def _record(self, file: str) -> Path:
        return self._running / f"{file.replace('/', '-')}.json"

    def finish(
        self,
        shards: Iterable[PackedShard],
        bad: list[BadFile],
        features: dict[str, Any],
        done: dict[str, Any],
    ) -> None:
        """Writes what makes it a data set, and what was packed."""
        by_split: dict[str, list[str]] = {}
        for shard in shards:
            by_split.setdefault(shard.split, []).append(Path(shard.file).name)
        for split, files in by_split.items():
            folder = self.folder / split if len(by_split) > 1 else self.folder
            _write(folder / "state.json", _state(files, split, done["plan"]))
            _write(folder / "dataset_info.json", {"features": features})
        if len(by_split) > 1:
            _write(self.folder / "dataset_dict.json", {"splits": list(by_split)})
        if bad:
            lines = (json.dumps(asdict(one), ensure_ascii=False) + "\n" for one in bad)
            _write_text(self.folder / BAD_FILES, "".join(lines))
        _write(self.folder / DONE, done)

    def _empty(self) -> None:
        """Removes what `pack` has written here, and nothing else.

        Raises:
            ValueError: It holds shards of others, which would be taken for those of the data set.
        """
        ours = {self.folder / name for name in self._written()}
        for folder in (self.folder, *(self.folder / split for split in _SPLITS)):
            if folder != self.folder and _is_packed(folder):
                continue
            if others := sorted(set(folder.glob("*.arrow")) - ours):
                raise ValueError(
                    f"{folder} contains shards that pack did not write, such as {others[0].name}; "
                    "move them elsewhere, or give another folder"
                )
        # The shards first: what names them is needed where this is stopped and begun again.
        for path in ours:
            path.unlink(missing_ok=True)
        for folder in {self.folder, *(path.parent for path in ours)}:
            for name in _DATASETS:
                (folder / name).unlink(missing_ok=True)
            if folder != self.folder and folder.is_dir():
                with contextlib.suppress(OSError):
                    folder.rmdir()  # unless something else is in it
        for name in (DONE, BAD_FILES):
            (self.folder / name).unlink(missing_ok=True)
        for path in self._running.iterdir():
            if path.name != "lock":
                path.unlink()

    def _written(self) -> Iterator[str]:
        """The shards that `pack.json` and the records of a part name."""
        shards: list[Any] = list((self.finished() or {}).get("shards", []))
        shards += [(_json(path) or {}).get("shard") for path in self._running.glob("*.arrow.json")]
        for shard in shards:
            file = cast("dict[str, Any]", shard).get("file") if isinstance(shard, dict) else None
            # Whatever a file says, nothing is removed elsewhere.
            found = _OURS.fullmatch(file) if isinstance(file, str) else None
            if found and not (found[1] and _is_packed(self.folder / found[1])):
                yield found[0]


def _is_packed(folder: Path) -> bool:
    """Whether another run of `pack` has written, or writes, to the folder."""
    return (folder / DONE).exists() or (folder / RUNNING).exists()


def _shards_in(folder: Path) -> Iterator[str]:
    for one in (folder, *(folder / split for split in _SPLITS)):
        yield from sorted(path.name for path in one.glob("*.arrow"))


def _state(files: list[str], split: str, digest: str) -> dict[str, Any]:
    """As `Dataset.save_to_disk` has it."""
    return {
        "_data_files": [{"filename": name} for name in files],
        "_fingerprint": digest[:16],
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
        "_split": split,
    }


def _json(path: Path) -> dict[str, Any] | None:
    """The object in a file; `None` where there is none."""
    try:
        content: Any = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError, RecursionError):
        return None
    return cast("dict[str, Any]", content) if isinstance(content, dict) else None


def _write(path: Path, content: dict[str, Any]) -> None:
    _write_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _write_text(path: Path, text: str) -> None:
    """Writes a file as a whole, to the disk, or leaves what was there."""
    part = path.with_name(f"{path.name}.partial")
    try:
        with part.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
        _sync(path.parent)
    except OSError as error:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
        error.filename = error.filename or str(path)
        raise


def _sync(folder: Path) -> None:
    """Makes the names in a folder last."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    except OSError as error:  # some file systems have no fsync of folders
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):
            raise
    finally:
        os.close(fd)
