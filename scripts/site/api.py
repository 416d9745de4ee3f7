"""The pages of the API reference: which name is on which page."""

from __future__ import annotations

import inspect

import gristmill

GROUPS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "datasets": (
        "Data sets",
        "What a training loop iterates over.",
        ("ArrowIterDataset", "ArrowIterator", "ArrowDataSource", "Mixture", "DecodeAudio"),
    ),
    "options": (
        "Options",
        "What data sets are told: audio, crops, order, sampling, reading.",
        (
            "Audio",
            "RandomCrop",
            "CenterCrop",
            "StartCrop",
            "Windows",
            "EventCrop",
            "Limits",
            "Shuffle",
            "Balanced",
            "Weighted",
            "Split",
            "ReadOptions",
        ),
    ),
    "audio": (
        "Single recordings",
        "Encoded bytes to samples, without a data set.",
        ("decode", "decode_with_report", "probe", "AudioInfo", "DecodeReport", "events_in"),
    ),
    "order": (
        "Order and shuffling",
        "Which row comes when, without reading it.",
        ("global_order", "GlobalOrder", "MixtureOrder", "shuffle_quality", "ShuffleQuality"),
    ),
    "diagnosis": (
        "Statistics and verdicts",
        "What limits the input, and what to change.",
        ("stats", "Stats", "verdict", "Verdict", "Advice", "Case", "PerSource"),
    ),
    "bad-rows": (
        "Bad rows",
        "Rows that cannot be decoded, and the files that list them.",
        ("BadRow", "DamagedRow", "QuarantineFile", "read_quarantine"),
    ),
    "tools": (
        "Tools",
        "What the commands do, as functions, and as parts for [batch engines](../engines.md).",
        (
            "inspect",
            "Inspection",
            "AudioSample",
            "ShardHeader",
            "UnreadableShard",
            "scan",
            "Scan",
            "ScanReport",
            "Finding",
            "merge_scans",
            "scan_parts",
            "ScanPart",
            "ScanSummary",
            "build_indexes",
            "index_parts",
            "IndexPart",
            "IndexReport",
            "AudioCoverage",
            "merge_parts",
            "pack",
            "PackReport",
            "PackedShard",
            "BadFile",
            "diagnose",
            "Diagnosis",
            "Conclusion",
            "bench",
            "BenchReport",
        ),
    ),
    "errors": (
        "Errors",
        "Every exception has attributes that say where. ",
        (
            "GristmillError",
            "CorruptShardError",
            "DecodeError",
            "InternalError",
            "LimitError",
            "NoUsableRowsError",
            "SchemaError",
            "SourceNotFoundError",
            "UnsupportedCodecError",
        ),
    ),
}

_INDEX = """# API reference

Generated from the docstrings, which `help(gm.ArrowIterDataset)` and editors show too. Everything is
in one module: `import gristmill as gm`.

"""


def pages() -> dict[str, str]:
    """The pages by their file names."""
    missing = set(gristmill.__all__) - {"__version__"}
    for _, _, names in GROUPS.values():
        missing -= set(names)
    if missing:
        raise SystemExit(f"scripts/site/api.py has no page for {', '.join(sorted(missing))}")
    files = {"index.md": _index()}
    for key, (title, about, names) in GROUPS.items():
        parts = [f"# {title}\n\n{about}\n", *map(_entry, names)]
        files[f"{key}.md"] = "\n".join(parts)
    return files


def _index() -> str:
    lines = [
        f"- [{title}]({key}.md): {', '.join(f'`{name}`' for name in names)}"
        for key, (title, _, names) in GROUPS.items()
    ]
    tree = "\n".join(f"{key}.md" for key in GROUPS)
    return _INDEX + "\n".join(lines) + f"\n\n```{{toctree}}\n:hidden:\n\n{tree}\n```\n"


def _entry(name: str) -> str:
    thing = getattr(gristmill, name)
    if inspect.isclass(thing):
        kind, extra = "autoclass", "   :members:\n"
    elif callable(thing):
        kind, extra = "autofunction", ""
    else:
        kind, extra = "autodata", "   :no-value:\n"
    return f"## {name}\n\n```{{eval-rst}}\n.. {kind}:: gristmill.{name}\n{extra}```\n"
