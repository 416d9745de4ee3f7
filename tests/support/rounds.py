"""How many examples each test tries: fewer in `make test` than in `make test-all`."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("change", deadline=None, print_blob=True)
settings.register_profile("full", deadline=None, print_blob=True)


def is_full() -> bool:
    """Whether this run is the gate before a release (`--hypothesis-profile=full`)."""
    return settings.get_current_profile_name() == "full"


def rounds(full: int, change: int | None = None) -> int:
    """`full` in `make test-all`; in `make test` `change`, or a third."""
    if is_full():
        return full
    return max(full // 3, 10) if change is None else change
