"""Hashes of what each seed of the fuzz corpora decodes to.

`python tests/audio/golden_hashes.py` prints them; `--write` renews the file that `test_golden.py`
reads.
It is a script of its own, so that an emulator can run it.
"""

from __future__ import annotations

import hashlib
import json
import sys
from pathlib import Path

if __name__ == "__main__":
    # Grain imports them where they are installed, which takes an emulator ten seconds.
    sys.modules.update(dict.fromkeys(("jax", "orbax")))  # pyright: ignore[reportArgumentType]

import gristmill as gm

SEEDS = Path(__file__).parents[2] / "fuzz" / "corpus"
GOLDEN = Path(__file__).with_suffix(".json")

# Resamplers and target rates. 31,999 Hz is reached by sums, the others of "hq" and "best" by
# transforms.
RESAMPLED = [("hq", 32_000), ("hq", 31_999), ("best", 24_000), ("torchaudio", 16_000)]
# Their rates go from 8 to 48 kHz; the other folders add no rate and no number of channels.
RESAMPLED_FROM = {"flac", "mp3", "opus", "wav"}


def hashes() -> dict[str, str]:
    """A hash for each recording as it is, and one for each resampler over many of them."""
    found = {}
    resampled = {case: hashlib.sha256() for case in RESAMPLED}
    for path in sorted(SEEDS.glob("*/*")):
        if len(path.name) == 40:
            continue  # libFuzzer has added it
        data = path.read_bytes()
        try:
            decoded = gm.decode(data, channels="keep", strict=False)
        except (gm.GristmillError, ValueError):
            continue  # some seeds are no recordings
        found[f"{path.parent.name}/{path.name}"] = _short(hashlib.sha256(decoded.tobytes()))
        if path.parent.name not in RESAMPLED_FROM:
            continue
        for (name, rate), total in resampled.items():
            total.update(gm.decode(data, sample_rate=rate, resampler=name, strict=False).tobytes())
    return found | {
        f"resampled/{name}-{rate}": _short(total) for (name, rate), total in resampled.items()
    }


def _short(digest: hashlib._Hash) -> str:
    return digest.hexdigest()[:16]


if __name__ == "__main__":
    text = json.dumps(hashes(), indent=1, sort_keys=True) + "\n"
    if sys.argv[1:] == ["--write"]:
        GOLDEN.write_text(text)
    else:
        sys.stdout.write(text)
