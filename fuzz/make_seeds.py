"""Writes the seeds in corpus/: a few kilobytes each, of synthetic signals and invented rows.

They are committed, since encoders change: run this only to add seeds. It needs the packages of the
tests.
"""

import io
import shutil
import struct
import sys
from decimal import Decimal
from pathlib import Path

import av
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import soundfile
from xxhash import xxh3_64_intdigest

CORPUS = Path(__file__).parent / "corpus"
sys.path.insert(0, str(CORPUS.parents[1] / "tests" / "support"))

from av_files import write as encode_av  # noqa: E402  (the tests' folder has to be named first)
from ogg_files import pages_of  # noqa: E402


def signal(n: int, channels: int, seed: int = 0) -> np.ndarray:
    """A sweep with a click and a little noise, each channel its own."""
    rng = np.random.default_rng(seed)
    t = np.arange(n)[:, None]
    sweep = 0.5 * np.sin(t * (0.02 + t * 2e-5) + np.arange(channels))
    click = 0.4 * (t == n // 2)
    return sweep + click + 0.01 * rng.standard_normal((n, channels))


def encode(container: str, subtype: str, rate: int, channels: int, n: int, **options) -> bytes:
    """The bytes of a file as libsndfile writes it."""
    out = io.BytesIO()
    out.name = f"seed.{container.lower()}"
    x = signal(n, channels)
    soundfile.write(out, x, rate, format=container, subtype=subtype, **options)
    return out.getvalue()


def audio_seeds() -> dict[str, dict[str, bytes]]:
    """One folder a codec: several encodings, rates and channel counts."""
    wav = {
        f"{subtype.lower()}-{channels}": encode("WAV", subtype, 8000, channels, 300)
        for subtype in ("PCM_U8", "PCM_16", "PCM_24", "PCM_32", "FLOAT", "DOUBLE")
        for channels in (1, 2)
    }
    wav["extensible-6"] = encode("WAVEX", "PCM_16", 48000, 6, 200)
    wav["rf64-2"] = encode("RF64", "PCM_16", 44100, 2, 300)
    flac = {
        f"s{bits}-{channels}": encode("FLAC", f"PCM_{subtype}", rate, channels, 2500)
        for bits, subtype, rate, channels in [
            (8, "S8", 8000, 1),
            (16, "16", 44100, 1),
            (16, "16", 32000, 2),
            (24, "24", 48000, 2),
        ]
    }
    flac["silence"] = silence = silent_flac()
    flac["tagged"] = b"ID3\x04\0\0\0\0\0\x05hello" + silence
    vorbis = {
        "mono-8k": encode("OGG", "VORBIS", 8000, 1, 5000, compression_level=0.9),
        "mono-32k": encode("OGG", "VORBIS", 32000, 1, 6000, compression_level=0.7),
        "stereo-44k": encode("OGG", "VORBIS", 44100, 2, 6000, compression_level=0.8),
    }
    mp3 = {
        f"{name}-{rate}": encode("MP3", "MPEG_LAYER_III", rate, channels, 6000, bitrate_mode=mode)
        for name, channels, rate, mode in [
            ("mono", 1, 16000, "VARIABLE"),
            ("mono", 1, 8000, "VARIABLE"),
            ("stereo", 2, 22050, "CONSTANT"),
            ("stereo", 2, 44100, "VARIABLE"),
        ]
    }
    first = next(iter(mp3.values()))
    mp3["tagged"] = b"ID3\x03\0\0\0\0\0\x05hello" + first + b"TAG" + bytes(125)
    surround = encode("OGG", "VORBIS", 44100, 6, 4000, compression_level=0.7)
    parts = {name: vorbis_parts(data) for name, data in vorbis.items()}
    parts["surround-44k"] = vorbis_parts(surround)
    return {"wav": wav, "flac": flac, "ogg_vorbis": vorbis, "vorbis": parts, "mp3": mp3}


def container_seeds() -> dict[str, dict[str, bytes]]:
    """The formats around other codecs, and the codecs that libsndfile does not write."""

    def av(container: str, codec: str, rate: int, channels: int, n: int, **options) -> bytes:
        return encode_av(signal(n, channels).astype(np.float32), rate, container, codec, **options)

    lossless = {"bit_rate": None, "sample_format": "s16"}
    planar = {"bit_rate": None, "sample_format": "s16p"}
    fragments = {"movflags": "frag_keyframe+empty_moov+default_base_moof", "frag_duration": "40000"}
    low = {"bit_rate": 48_000}
    return {
        "opus": {
            "celt-1": av("ogg", "libopus", 48000, 1, 9600, sample_format="flt", bit_rate=40_000),
            "celt-2": av("ogg", "libopus", 48000, 2, 9600, sample_format="flt", bit_rate=48_000),
            "silk-1": av("ogg", "libopus", 16000, 1, 8000, sample_format="flt", bit_rate=12_000),
        },
        "ogg_flac": {
            "s16-1": av("ogg", "flac", 32000, 1, 2500, **lossless),
            "s16-2": av("ogg", "flac", 44100, 2, 2500, **lossless),
        },
        "mp2": {
            "mono": av("mp2", "mp2", 32000, 1, 5000, sample_format="s16", bit_rate=48_000),
            "stereo": av("mp2", "mp2", 44100, 2, 4000, sample_format="s16", bit_rate=96_000),
            "mpeg-2": av("mp2", "mp2", 22050, 1, 4000, sample_format="s16", bit_rate=32_000),
        },
        "aiff": {
            f"{subtype.lower()}-{channels}": encode("AIFF", subtype, 8000, channels, 300)
            for subtype, channels in [("PCM_16", 1), ("PCM_24", 2), ("FLOAT", 2), ("ULAW", 1)]
        },
        "caf": {
            f"{subtype.lower()}-{channels}": encode("CAF", subtype, 8000, channels, 300)
            for subtype, channels in [("PCM_16", 2), ("PCM_32", 1), ("DOUBLE", 2), ("ALAW", 1)]
        },
        "sphere": {
            f"{subtype.lower()}-{channels}": encode("NIST", subtype, 8000, channels, 300)
            for subtype, channels in [("PCM_16", 2), ("PCM_24", 1), ("PCM_S8", 1), ("ULAW", 2)]
        },
        "mp4": {
            "aac-1": av("mp4", "aac", 32000, 1, 8000, **low),
            "aac-2": av("mp4", "aac", 44100, 2, 6000, **low),
            "aac-fragments": av("mp4", "aac", 32000, 1, 8000, flags=fragments, **low),
            "alac-1": av("mp4", "alac", 32000, 1, 5000, **planar),
            "alac-2": av("mp4", "alac", 44100, 2, 3000, **planar),
            "flac-1": av("mp4", "flac", 44100, 1, 3000, flags={"strict": "-2"}, **lossless),
        },
        "alac": {
            "s16-1": alac(32000, 1, 5000),
            "s16-2": alac(44100, 2, 3000),
            "s24-2": alac(48000, 2, 1500, sample_format="s32p"),
            "s16-6": alac(48000, 6, 900),
            "silence": alac(44100, 1, 9000, of=np.zeros((9000, 1))),
            "noise": alac(44100, 2, 900, of=np.random.default_rng(2).uniform(-1, 1, (900, 2))),
        },
        "adts": {
            "mono": av("adts", "aac", 16000, 1, 8000, **low),
            "stereo": av("adts", "aac", 44100, 2, 6000, **low),
        },
        "matroska": {
            "aac": av("matroska", "aac", 32000, 1, 6000, **low),
            "vorbis": av("matroska", "vorbis", 32000, 2, 6000, options={"strict": "-2"}),
            "mp3": av("matroska", "libmp3lame", 32000, 1, 6000, **low),
            "flac": av("matroska", "flac", 44100, 2, 2500, **lossless),
            "alac": av("matroska", "alac", 44100, 1, 3000, **planar),
            "pcm": av("matroska", "pcm_s16le", 8000, 2, 500, **lossless),
        },
    }


def vorbis_parts(data: bytes) -> bytes:
    """A setup and packets as `fuzz/src/vorbis.rs` takes them, out of a file with a sound setup."""
    packets, packet = [], b""
    for page in pages_of(data):
        at = 0
        for length in page.lacing:
            packet += page.body[at : at + length]
            at += length
            if length < 255:
                packets.append(packet)
                packet = b""
    ident, _, setup, *audio = packets
    short, long = ident[28] & 15, ident[28] >> 4
    head = bytes([ident[11] - 1, (short - 6) | (long - short) << 4])
    return head + b"".join(struct.pack(">H", len(p)) + p for p in [setup[7:], *audio])


def alac(rate: int, channels: int, n: int, *, of: np.ndarray | None = None, **options) -> bytes:
    """Packets as `fuzz/src/alac.rs` takes them."""
    options = {"bit_rate": None, "sample_format": "s16p", **options}
    frames = (signal(n, channels) if of is None else of).clip(-1, 1).astype(np.float32)
    with av.open(io.BytesIO(encode_av(frames, rate, "mp4", "alac", **options))) as container:
        cookie = container.streams.audio[0].codec_context.extradata[12:]
        packets = [bytes(packet) for packet in container.demux(audio=0) if packet.size]
    frame_len, bits, code = cookie[:4], cookie[5], cookie[6:9]
    head = bytes([channels - 1, {16: 0, 24: 1}[bits]])
    head += (int.from_bytes(frame_len, "big") - 1).to_bytes(2, "big") + code
    return head + b"".join(struct.pack(">H", len(packet)) + packet for packet in packets)


def silent_flac() -> bytes:
    """Two channels of zeros: the most frames in the fewest bytes."""
    out = io.BytesIO()
    out.name = "seed.flac"
    soundfile.write(out, np.zeros((20000, 2)), 48000, format="FLAC", subtype="PCM_16")
    return out.getvalue()


def probe_seeds(audio: dict[str, dict[str, bytes]]) -> dict[str, bytes]:
    """The beginnings of all of them, and of formats that are known and refused."""
    seeds = {f"{codec}-{n}": s[n][:1500] for codec, s in audio.items() for n in list(s)[::3]}
    heads = {
        "aiff": b"FORM\0\0\0\x10AIFF",
        "mp4": b"\0\0\0\x18ftypM4A ",
        "matroska": b"\x1a\x45\xdf\xa3",
        "adts": bytes.fromhex("fff15080 0f7ffc"),
        "layer-2": bytes.fromhex("fffd8004"),
        "free-format": bytes.fromhex("fffb0000"),
        "id3-twice": b"ID3\x04\0\0\0\0\0\x02xx" * 2 + b"fLaC",
    }
    return seeds | {name: head + bytes(64) for name, head in heads.items()}


def numeric_seeds() -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Fields of numbers for the targets that need no file."""
    rng = np.random.default_rng(1)
    lengths = {f"{i:02}": rng.bytes(32) for i in range(16)}
    words = [0, 1, 2, 7, 100, 1 << 32, (1 << 62) - 1, 1 << 62, (1 << 63) - 1, (1 << 64) - 1]
    order = {f"word-{i}": struct.pack("<8Q", *[w] * 8) for i, w in enumerate(words)}
    order |= {f"{i:02}": rng.bytes(96) for i in range(16)}
    return lengths, order


def table(n: int, wav: bytes) -> pa.Table:
    """A column of every kind that shards of audio have, nulls included."""
    numbers = [None if i % 5 == 3 else i for i in range(n)]
    texts = [None if i % 4 == 2 else "ab" * i for i in range(n)]
    audio = [{"bytes": wav[: 20 * i], "path": f"{i}.wav"} if i % 3 else None for i in range(n)]
    return pa.table(
        {
            "i": pa.array(numbers, pa.int32()),
            "f": pa.array(numbers, pa.float64()),
            "flag": pa.array([i % 2 == 0 for i in range(n)]),
            "when": pa.array(numbers, pa.timestamp("us", "UTC")),
            "dec": pa.array(
                [None if x is None else Decimal(x) for x in numbers], pa.decimal128(9, 2)
            ),
            "text": pa.array(texts),
            "view": pa.array(texts, pa.string_view()),
            "bytes": pa.array([None if t is None else t.encode() for t in texts], pa.binary()),
            "large": pa.array([b"x" * i for i in range(n)], pa.large_binary()),
            "fixed": pa.array([bytes([i % 256] * 4) for i in range(n)], pa.binary(4)),
            "list": pa.array([list(range(i % 4)) for i in range(n)], pa.list_(pa.int16())),
            "pair": pa.array([[i, i + 1] for i in range(n)], pa.list_(pa.int8(), 2)),
            "class": pa.array(["abc"[i % 3] for i in range(n)]).dictionary_encode(),
            "audio": pa.array(audio, pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
        }
    )


def kinds(n: int) -> pa.Table:
    """A column of each of the other types, nulls included."""
    lists = [None if i % 4 == 2 else list(range(i % 3)) for i in range(n)]
    nested = [None if part is None else [part, [7], None] for part in lists]
    runs = [1 + i // 2 for i in range(n)]
    words = pa.array(["a", None, "b"])
    return pa.table(
        {
            "view-list": pa.array(lists, pa.list_view(pa.int8())),
            "large-view-list": pa.array(nested, pa.large_list_view(pa.list_view(pa.int16()))),
            "nested": pa.array(nested, pa.list_(pa.large_list(pa.float16()))),
            "words": pa.array([None if part is None else [*map(str, part)] for part in lists]),
            "records": pa.array([[{"a": i, "b": None}] * (i % 3) for i in range(n)]),
            "map": pa.array([[("k", i), ("k", None)] for i in range(n)], pa.map_("utf8", "int8")),
            "struct": pa.array([{"x": {"y": i}} if i % 3 else None for i in range(n)]),
            "runs": pc.run_end_encode(pa.array(runs, pa.int16())),
            "run-lists": pa.ListArray.from_arrays(
                pa.array(range(n + 1), pa.int32()), pc.run_end_encode(pa.array(runs, pa.int8()))
            ),
            "dictionary-lists": pa.ListArray.from_arrays(
                pa.array([i // 2 for i in range(n + 1)], pa.int32()),
                pa.DictionaryArray.from_arrays(pa.array([i % 3 for i in range(n)]), words),
            ),
            "decimal256": pa.array([Decimal(i) / 8 for i in range(n)], pa.decimal256(50, 5)),
            "time": pa.array(range(n), pa.int32()).view(pa.time32("ms")),
            "duration": pa.array(range(n), pa.int64()).view(pa.duration("ns")),
            "null": pa.nulls(n),
        }
    )


def shard_seeds(wav: bytes) -> dict[str, bytes]:
    """Streams and files, compressed and not, whole tables and single columns."""
    whole = table(7, wav)
    narrow = table(12, wav).select(["i", "audio", "class"])
    seeds = {}
    for name, data in [("whole", whole), ("narrow", narrow), ("empty", whole.slice(0, 0))]:
        for codec in (None, "lz4", "zstd"):
            for kind, make in [("stream", pa.ipc.new_stream), ("file", pa.ipc.new_file)]:
                if name == "empty" and codec:
                    continue
                sink = io.BytesIO()
                options = pa.ipc.IpcWriteOptions(compression=codec)
                with make(sink, data.schema, options=options) as writer:
                    writer.write_table(data, max_chunksize=5)
                seeds[f"{name}-{kind}-{codec or 'plain'}"] = sink.getvalue()
    columns = [(of, name) for of in (whole, kinds(6)) for name in of.column_names]
    for of, name in columns:
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, of.select([name]).schema) as writer:
            writer.write_table(of.select([name]))
        seeds[f"column-{name}"] = sink.getvalue()
    deltas = io.BytesIO()
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    schema = narrow.select(["class"]).schema
    with pa.ipc.new_stream(deltas, schema, options=options) as writer:
        for values in (["a", "b"], ["a", "b", "c"], ["a", "b", "c", "d"]):
            column = pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int32()), pa.array(values))
            writer.write_batch(pa.record_batch([column], schema=schema))
    seeds["deltas"] = deltas.getvalue()
    return seeds


def parquet_seeds(wav: bytes) -> dict[str, bytes]:
    """The options that `datasets` and other writers use, whole tables and single columns."""
    named = {"runs", "run-lists", "view-list", "large-view-list", "duration", "dictionary-lists"}
    others = kinds(9).drop_columns(sorted(named))
    whole = table(12, wav)
    narrow = whole.select(["i", "text", "audio", "class"])
    plain = {"use_dictionary": False, "column_encoding": None, "compression": "NONE"}
    index = {"write_page_index": True, "data_page_size": 60, "write_batch_size": 3}
    options = {
        "plain": plain,
        "plain-index": {**plain, **index},
        "plain-v2": {**plain, **index, "data_page_version": "2.0"},
        "snappy": {"compression": "SNAPPY", "row_group_size": 5},
        "snappy-index": {"compression": "SNAPPY", **index},
        **{codec: {"compression": codec, **index} for codec in ("zstd", "gzip", "brotli", "lz4")},
        "v2-zstd": {"compression": "ZSTD", "data_page_version": "2.0"},
        "delta": {
            "use_dictionary": False,
            "column_encoding": {"text": "DELTA_BYTE_ARRAY", "i": "DELTA_BINARY_PACKED"},
            **index,
        },
        "without-schema": {"store_schema": False},
    }
    seeds = {}
    for name, chosen in options.items():
        sink = io.BytesIO()
        of = narrow.select(["i", "text"]) if name == "delta" else narrow
        pq.write_table(of, sink, **chosen)
        seeds[name] = sink.getvalue()
    for name, of in [("whole", whole), ("others", others), ("empty", narrow.slice(0, 0))]:
        sink = io.BytesIO()
        pq.write_table(of, sink, **index)
        seeds[name] = sink.getvalue()
    return seeds


def seek_seeds() -> dict[str, bytes]:
    """Each recording's true entry, and one with three of its bytes changed: where, and to what."""
    rng = np.random.default_rng(0)
    seeds = {}
    for number, name in enumerate(("wav", "mp3", "flac", "opus", "adts", "mp4")):
        seeds[name] = bytes([number])
        changes = [(0, rng.integers(3, 40), rng.integers(256)) for _ in range(3)]
        seeds[f"{name}-lies"] = bytes([number, *(int(n) for change in changes for n in change)])
    return seeds


def audio_index_seeds() -> dict[str, bytes]:
    """The section of recordings of an index file, as `shard/audio_index/file.rs` writes it."""
    rng = np.random.default_rng(3)

    def number(n: int) -> bytes:
        low = [n >> shift & 0x7F for shift in range(0, max(n.bit_length(), 1), 7)]
        return bytes([part | 0x80 for part in low[:-1]] + low[-1:])

    def block(payload: bytes) -> bytes:
        return b"GMBL" + struct.pack("<QQ", xxh3_64_intdigest(payload), len(payload)) + payload

    def put(data: bytes) -> bytes:
        return number(len(data)) + data

    def headers(first: int, lengths: list[int]) -> bytes:
        return block(b"\1" + number(first) + b"".join(put(rng.bytes(n)) for n in lengths))

    def entries(items: list[tuple[int, int, int]]) -> bytes:
        each = (number(gap) + number(which) + put(rng.bytes(n)) for gap, which, n in items)
        return block(b"\2" + b"".join(each))

    wide = [(10**k, k % 3, 20 + k) for k in range(12)]
    return {
        "entries": headers(0, [40, 300]) + entries(wide),
        "without-headers": entries([(7, 0, 50)] * 5),
        "nothing-known": entries([(300_000, 0, 0)] * 4),
        "blocks": headers(0, [9]) + headers(1, [8]) + entries([(5, 1, 9)]) + entries([(9, 2, 9)]),
        "headers-are-lost": headers(5, [9]) + entries([(5, 1, 9), (5, 6, 9), (5, 0, 9)]),
        "one-comes-twice": entries([(5, 0, 3), (0, 0, 4)]) + entries([(5, 0, 5)]),
    }


def range_cache_seeds() -> dict[str, bytes]:
    """What is done to the files of a range cache, as `fuzz/src/range_cache.rs` takes it."""

    def change(
        log: bytes = b"", data: bytes = b"", *, at: int = 0, cut: int = 0, cut_data: int = 0
    ) -> bytes:
        return struct.pack("<HIIH", cut, cut_data, at, len(log)) + log + data

    def record(start: int = 0, end: int = 0, sums: tuple[int, ...] = (), hashed: int = 0) -> bytes:
        return struct.pack("<7Q", start, end, *(*sums, 0, 0, 0, 0)[:4], hashed)

    none = record()
    return {
        "untouched": change(),
        "a-log-that-is-cut": change(cut=61),
        "no-log": change(cut=56 * 40),
        "starts": change(record(1) + none + record(64)),
        "ends": change(none + record(0, 1) + record(0, 1 << 40)),
        "checksums": change(none * 2 + record(sums=(1,)) + record(sums=(0, 0, 0, 1))),
        "hashes": change(record(hashed=1) * 4),
        "records-of-anything": change(
            none * 40 + record(0, 65_536, (1, 2), 2) + record(70_000, 3, (1,), 2)
        ),
        "half-a-record": change(none * 60 + record(5, 100)[:30]),
        "a-bit": change(data=b"\x10", at=70_001),
        "a-hole": change(data=bytes(range(1, 250)), at=65_500),
        "bytes-that-are-cut": change(cut_data=90_000),
        "no-bytes": change(cut_data=1 << 17),
        "all-at-once": change(record(0, 9) * 3, b"\1" * 900, at=3_000, cut=10, cut_data=7),
    }


def main() -> int:
    """Writes what is not there yet, or everything with --again."""
    audio = audio_seeds()
    lengths, order = numeric_seeds()
    folders = {
        **audio,
        **container_seeds(),
        "probe": probe_seeds(audio),
        "resample_lengths": lengths,
        "order": order,
        "seek": seek_seeds(),
        "audio_index": audio_index_seeds(),
        "range_cache": range_cache_seeds(),
        "shard": shard_seeds(audio["wav"]["pcm_16-1"]),
        "parquet": parquet_seeds(audio["wav"]["pcm_16-1"]),
    }
    if "--again" in sys.argv:
        shutil.rmtree(CORPUS, ignore_errors=True)
    for folder, seeds in folders.items():
        (CORPUS / folder).mkdir(parents=True, exist_ok=True)
        for name, data in seeds.items():
            path = CORPUS / folder / name
            if not path.exists():
                path.write_bytes(data)
    total = sum(p.stat().st_size for p in CORPUS.rglob("*") if p.is_file())
    print(f"{total} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
