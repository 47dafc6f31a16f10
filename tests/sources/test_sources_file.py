import gzip
import io
import json
import random
import sys
from pathlib import Path
from types import SimpleNamespace

import msgspec
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from streamrank.errors import SourceError
from streamrank.events.types import Record
from streamrank.sources.file import LogSource, write_frame
from streamrank.sources.stream import lines

EVENTS = [json.dumps({"event": "item", "id": str(i), "text": "é" * i}).encode() for i in range(7)]
PACK = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.compress}


def written(folder: Path, name: str, data: bytes) -> Path:
    path = folder / name
    path.write_bytes(PACK[path.suffix if path.suffix in PACK else ""](data))
    return path


def values(source: LogSource, start: int = 0) -> list[bytes]:
    return [record.value for record in source.records(start)]


def plain_lines(data: bytes, limit: int) -> list[tuple[int, bytes]]:
    """What `lines` should give, said the slow way on the whole content."""
    *ended, last = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    whole = [line.removesuffix(b"\r") for line in ended] + [last]
    return [(n, line[: limit + 1]) for n, line in enumerate(whole, 1) if line.strip() or len(line) > limit]


@pytest.mark.parametrize("packing", PACK)
@pytest.mark.parametrize("name", ["log.jsonl", "log.msgpack", "log.json", "log.ndjson", "LOG.MPK", "log"])
def test_what_was_written_is_read_back_in_every_form_and_packing(
    tmp_path: Path, name: str, packing: str
) -> None:
    if name.lower().endswith(("msgpack", "mpk")):
        data = b"".join(map(write_frame, EVENTS))
    else:
        data = b"\n".join(EVENTS) + b"\n"
    path = written(tmp_path, name + packing, data)
    mark = "#" if "p" in name.lower().partition(".")[2] else ":"
    read = list(LogSource([path]).records())
    assert read == [Record(i, value, f"{path.name}{mark}{i + 1}") for i, value in enumerate(EVENTS)]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.lists(st.sampled_from([b"{}", b'{"a": 1}', b"", b"  ", b"\t\r", b"[1, 2]"]), max_size=6),
        min_size=1,
    ),
    st.sampled_from([b"\n", b"\r\n"]),
    st.sampled_from(list(PACK)),
    st.booleans(),
)
def test_reading_from_any_offset_gives_the_rest_of_the_whole(
    tmp_path_factory: pytest.TempPathFactory,
    files: list[list[bytes]],
    end: bytes,
    packing: str,
    last_end: bool,
) -> None:
    folder = tmp_path_factory.mktemp("seek")
    paths = [
        written(folder, f"{i}.jsonl{packing}", end.join(content) + (end if last_end else b""))
        for i, content in enumerate(files)
    ]
    source = LogSource(paths)
    whole = list(source.records())
    assert [record.value for record in whole] == [
        line for content in files for line in content if line.strip()
    ]
    assert [record.offset for record in whole] == list(range(len(whole)))
    for start in range(len(whole) + 2):
        assert list(source.records(start)) == whole[start:]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.binary(max_size=300), max_size=8), st.integers(0, 9))
def test_frames_are_read_from_any_offset_and_form_a_msgpack_stream(
    tmp_path_factory: pytest.TempPathFactory, payloads: list[bytes], start: int
) -> None:
    path = written(tmp_path_factory.mktemp("frames"), "log.msgpack", b"".join(map(write_frame, payloads)))
    assert values(LogSource([path]), start) == payloads[start:]
    # each is msgpack's own bin: a library that knows nothing of us finds the same bytes
    assert [msgspec.msgpack.decode(write_frame(payload)) for payload in payloads] == payloads


@pytest.mark.parametrize("size", [0, 255, 256, 65_535, 65_536, 70_000])
def test_a_frame_of_any_width_is_read_back(tmp_path: Path, size: int) -> None:
    payload = bytes(i % 251 for i in range(size))
    path = written(tmp_path, "log.mpk", write_frame(payload) + write_frame(b"next"))
    assert values(LogSource([path])) == [payload, b"next"]


@settings(max_examples=300, deadline=None)
@given(st.text(alphabet="ab \t\r\n\ufeff", max_size=40), st.integers(1, 8))
def test_lines_equal_their_slow_twin_whatever_the_limit(text: str, limit: int) -> None:
    data = text.encode()
    assert list(lines(io.BytesIO(data), limit)) == plain_lines(data, limit)


def test_places_count_blank_lines_but_offsets_do_not(tmp_path: Path) -> None:
    path = written(tmp_path, "log.jsonl", b"\n{}\n\n  \n[]\n")
    assert [(r.offset, r.place) for r in LogSource([path]).records()] == [
        (0, "log.jsonl:2"),
        (1, "log.jsonl:5"),
    ]


def test_a_byte_order_mark_is_no_part_of_the_first_record(tmp_path: Path) -> None:
    assert values(LogSource([written(tmp_path, "a.jsonl", b"\xef\xbb\xbf{}\n{}")])) == [b"{}", b"{}"]
    assert values(LogSource([written(tmp_path, "b.json", b"\xef\xbb\xbf[\n{},\n1]")])) == [b"{}", b"1"]
    assert values(LogSource([written(tmp_path, "c.jsonl", b"\xef\xbb\xbf")])) == []


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_line_over_the_limit_comes_cut_and_the_next_one_whole(tmp_path: Path, end: bytes) -> None:
    limit = 1000
    exact, over = b"x" * limit, b"y" * (limit + 1)
    longest = b"z" * 1_000_000
    data = b"\n".join([exact, over, longest, b'"next"']) + end
    read = values(LogSource([written(tmp_path, "log.jsonl", data)], max_line_bytes=limit))
    assert read == [exact, over, longest[: limit + 1], b'"next"']


def test_a_frame_over_the_limit_comes_cut_and_the_next_one_whole(tmp_path: Path) -> None:
    data = write_frame(b"x" * 1_000_000) + write_frame(b"next")
    assert values(LogSource([written(tmp_path, "log.mpk", data)], 10)) == [b"x" * 11, b"next"]


@pytest.mark.parametrize(
    "text", ['[{"a": 1}, [2], "x"]', '\n [\n{"a": 1},\n[2]\n, "x"\n]\n', '[{"a":\n1}, [2], "x"]']
)
@pytest.mark.parametrize("packing", PACK)
def test_a_json_array_over_one_or_many_lines_is_a_record_an_element(
    tmp_path: Path, text: str, packing: str
) -> None:
    source = LogSource([written(tmp_path, "log.json" + packing, text.encode())])
    assert [json.loads(value) for value in values(source)] == [{"a": 1}, [2], "x"]
    assert [r.place for r in source.records(2)] == [f"log.json{packing}#3"]


def test_json_lines_that_are_arrays_stay_lines(tmp_path: Path) -> None:
    assert values(LogSource([written(tmp_path, "log.json", b"[1, 2]\n[3]\n")])) == [b"[1, 2]", b"[3]"]
    assert values(LogSource([written(tmp_path, "log.jsonl", b"[1, 2]\n")])) == [b"[1, 2]"]


def test_a_damaged_array_says_which_file_and_what(tmp_path: Path) -> None:
    with pytest.raises(
        SourceError, match=r"log\.json: starts as a JSON array but is none: .* one event a line"
    ):
        values(LogSource([written(tmp_path, "log.json", b'[{"a": 1},\n{')]))


def test_several_zst_frames_and_gzip_members_are_one_file(tmp_path: Path) -> None:
    for ending in (".gz", ".zst"):
        path = tmp_path / f"log.jsonl{ending}"
        path.write_bytes(b"".join(PACK[ending](event + b"\n") for event in EVENTS))
        assert values(LogSource([path])) == EVENTS


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_a_packed_file_cut_short_anywhere_is_refused(tmp_path: Path, ending: str) -> None:
    noise = random.Random(5)
    whole = PACK[ending](b"\n".join(b"%x" % noise.getrandbits(400) for _ in range(3000)))
    for length in (1, 5, 100, len(whole) // 2, len(whole) - 1):
        path = tmp_path / f"log.jsonl{ending}"
        path.write_bytes(whole[:length])
        with pytest.raises(
            SourceError, match=rf"log\.jsonl{ending}: damaged or cut short near byte \d+ of {length} "
        ):
            values(LogSource([path]))


@pytest.mark.parametrize("ending", [".gz", ".zst"])
def test_a_file_that_is_not_packed_as_its_name_says_is_refused(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"log.jsonl{ending}"
    path.write_bytes(b'{"event": "item"}\n')
    with pytest.raises(SourceError, match=r"drop the \.gz/\.zst"):
        values(LogSource([path]))


def test_a_flipped_byte_in_a_gzip_file_is_noticed(tmp_path: Path) -> None:
    whole = bytearray(gzip.compress(b"\n".join(EVENTS)))
    whole[-6] ^= 1  # in the checksum
    path = tmp_path / "log.jsonl.gz"
    path.write_bytes(whole)
    with pytest.raises(SourceError, match="CRC check failed"):
        values(LogSource([path]))


@pytest.mark.parametrize("payload", [b"last", b"x" * 300, b"y" * 70_000])
def test_a_file_that_ends_inside_a_frame_gives_what_is_whole_then_names_the_byte(
    tmp_path: Path, payload: bytes
) -> None:
    good, last = write_frame(b"good"), write_frame(payload)
    for cut in (1, 2, len(last) - 1):
        reading = LogSource([written(tmp_path, "log.msgpack", good + last[:cut])]).records()
        assert next(reading).value == b"good"
        with pytest.raises(SourceError, match=r"log\.msgpack: ends inside frame 2, which starts at byte 6\b"):
            next(reading)


def test_json_named_msgpack_is_refused_at_its_first_byte(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"log\.mpk: byte 0 is 0x7b.*write_frame"):
        values(LogSource([written(tmp_path, "log.mpk", b"{}\n")]))


def test_missing_files_and_folders_are_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"gone\.jsonl: no such file\. Check the path"):
        LogSource([tmp_path / "gone.jsonl"])
    with pytest.raises(SourceError, match=r"is a folder, not a file\. Name the files in it"):
        LogSource([tmp_path])
    with pytest.raises(SourceError, match="at least one log"):
        LogSource([])


def test_a_file_that_may_not_be_read_is_refused_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    path = written(tmp_path, "log.jsonl", b"{}")
    monkeypatch.setattr(Path, "open", refuse)  # root, who may run the tests, can read anything
    with pytest.raises(
        SourceError, match=r"log\.jsonl: cannot be read \(Permission denied\)\. Check its permissions"
    ):
        values(LogSource([path]))


def test_the_fingerprint_is_the_first_records_and_leaves_a_reading_alone(tmp_path: Path) -> None:
    empty, full = written(tmp_path, "empty.jsonl", b"\n\n"), written(tmp_path, "log.jsonl", b"{}\n[]\n")
    assert LogSource([empty]).fingerprint() == ""
    source = LogSource([empty, full])
    reading = source.records()
    next(reading)
    before = source.progress()
    assert (
        source.fingerprint() == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    )  # sha256sum
    assert source.progress() == before
    assert [record.value for record in reading] == [b"[]"]


@pytest.mark.parametrize("packing", PACK)
def test_progress_counts_bytes_on_disk_and_ends_at_their_total(tmp_path: Path, packing: str) -> None:
    noise = random.Random(3)
    text = b"\n".join(b"%x" % noise.getrandbits(4000) for _ in range(2000))
    paths = [written(tmp_path, f"{i}.jsonl{packing}", text) for i in range(2)]
    total = sum(path.stat().st_size for path in paths)
    source = LogSource(paths)
    assert source.progress() == (0, total)
    seen = [source.progress()[0] for _ in source.records()]
    assert seen == sorted(seen)
    assert 0 < seen[0] < total / 2 < seen[-1]
    assert source.progress() == (total, total)


def test_closing_ends_the_reading_and_may_be_done_twice(tmp_path: Path) -> None:
    source = LogSource([written(tmp_path, "log.jsonl", b"1\n2\n3")])
    source.close()
    reading = source.records()
    next(reading)
    source.close()
    source.close()
    assert list(reading) == []
    assert values(source) == [b"1", b"2", b"3"]


def test_a_reading_whose_file_was_closed_under_it_ends_in_silence(tmp_path: Path) -> None:
    source = LogSource([written(tmp_path, "log.jsonl", b"1\n2\n3\n")])
    next(source.records())
    assert source._raw is not None
    source._raw.close()  # as the garbage collector does, in whatever order it likes
    source.close()
    assert values(source) == [b"1", b"2", b"3"]


def test_standard_input_is_read_once_and_skips_by_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"{}\n\n[]\n1\n")))
    source = LogSource(["-"])
    assert source.fingerprint() == "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a"
    assert list(source.records(1)) == [Record(1, b"[]", "stdin:3"), Record(2, b"1", "stdin:4")]
    assert source.progress() == (0, 0)
    with pytest.raises(SourceError, match="can be read once"):
        source.records()


def test_an_empty_standard_input_has_no_records_and_no_fingerprint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"")))
    source = LogSource(["-"])
    assert list(source.records()) == []
    assert source.fingerprint() == ""


LAST = json.dumps(
    {"event": "item", "id": "né", "fields": [{"name": "a", "value": [1.5, None, "x"]}]}
).encode()


@pytest.mark.parametrize("packing", PACK)
def test_a_last_line_is_a_record_once_it_is_complete_and_not_before(tmp_path: Path, packing: str) -> None:
    for cut in range(len(LAST) + 1):
        path = written(tmp_path, "log.jsonl" + packing, EVENTS[0] + b"\n" + LAST[:cut])
        source = LogSource([path])
        assert values(source) == ([EVENTS[0], LAST] if cut == len(LAST) else [EVENTS[0]])
        assert source.progress()[0] == path.stat().st_size


def test_a_half_line_that_has_an_end_is_a_record_to_be_refused(tmp_path: Path) -> None:
    for end in (b"\n", b"\r\n"):
        path = written(tmp_path, "log.jsonl", EVENTS[0] + b"\n" + LAST[:-1] + end)
        assert values(LogSource([path])) == [EVENTS[0], LAST[:-1]]


def test_a_log_that_grew_gives_the_line_whole_at_the_offset_it_waited_for(tmp_path: Path) -> None:
    path = written(tmp_path, "log.jsonl", EVENTS[0] + b"\n" + LAST[:20])
    taken = len(values(LogSource([path])))
    written(tmp_path, "log.jsonl", EVENTS[0] + b"\n" + LAST + b"\n" + EVENTS[1] + b"\n")
    assert [(r.offset, r.value) for r in LogSource([path]).records(taken)] == [(1, LAST), (2, EVENTS[1])]


def test_a_log_of_half_a_line_has_no_record_and_no_fingerprint_yet(tmp_path: Path) -> None:
    source = LogSource([written(tmp_path, "log.jsonl", LAST[:-1])])
    assert (values(source), source.fingerprint()) == ([], "")


def test_a_half_line_in_a_file_that_others_follow_keeps_its_offset(tmp_path: Path) -> None:
    first = written(tmp_path, "a.jsonl", LAST[:-1])
    second = written(tmp_path, "b.jsonl", EVENTS[0] + b"\n" + LAST[:-1])
    assert values(LogSource([first, second])) == [LAST[:-1], EVENTS[0]]


def test_a_last_line_too_long_or_too_deep_is_a_record_to_be_refused(tmp_path: Path) -> None:
    assert values(LogSource([written(tmp_path, "a.jsonl", LAST[:-1])], 10)) == [LAST[:11]]
    deep = b"[" * 100_000
    assert values(LogSource([written(tmp_path, "b.jsonl", deep)])) == [deep]


@pytest.mark.parametrize("name", ["log.jsonl", "log", "log.json", "log.msgpack"])
@pytest.mark.parametrize("pack", [gzip.compress, zstandard.compress])
def test_packed_bytes_are_known_whatever_their_name(tmp_path: Path, name: str, pack) -> None:
    frames = name.endswith("msgpack")
    path = tmp_path / name
    path.write_bytes(pack(b"".join(write_frame(e) if frames else e + b"\n" for e in EVENTS)))
    assert values(LogSource([path])) == EVENTS


def test_a_packed_file_under_another_name_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(gzip.compress(b"\n".join(EVENTS))[:-9])
    with pytest.raises(SourceError, match=r"log\.jsonl: damaged or cut short near byte"):
        values(LogSource([path]))


@pytest.mark.parametrize("name", ["log.jsonl", "log.json", "log", "log.jsonl.gz", "log.jsonl.zst"])
@pytest.mark.parametrize("size", [3, 300, 70_000])  # bin 8, bin 16, bin 32
def test_frames_are_known_by_their_first_byte_whatever_their_name(
    tmp_path: Path, name: str, size: int
) -> None:
    path = written(tmp_path, name, write_frame(b"x" * size) + write_frame(b"{}"))
    assert list(LogSource([path]).records()) == [
        Record(0, b"x" * size, f"{name}#1"),
        Record(1, b"{}", f"{name}#2"),
    ]


@pytest.mark.parametrize("pack", PACK.values())
@pytest.mark.parametrize("frames", [False, True])
def test_standard_input_may_be_packed_and_may_be_frames(
    monkeypatch: pytest.MonkeyPatch, pack, frames: bool
) -> None:
    data = pack(b"".join(write_frame(e) if frames else e + b"\n" for e in EVENTS))
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(data))))
    assert values(LogSource(["-"])) == EVENTS


def test_packed_standard_input_cut_short_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = gzip.compress(b"\n".join(EVENTS))[:-9]
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BufferedReader(io.BytesIO(data))))
    with pytest.raises(SourceError, match=r"^-: damaged or cut short \("):
        values(LogSource(["-"]))


def test_one_indented_object_in_a_json_file_is_one_record(tmp_path):
    path = tmp_path / "one.json"
    path.write_text(json.dumps({"event": "example", "x": {"a": 1.0}, "y": 2.0}, indent=2) + "\n")
    (record,) = LogSource([path]).records()
    assert json.loads(record.value) == {"event": "example", "x": {"a": 1.0}, "y": 2.0}
    assert record.place == "one.json#1"
    path.write_text('{"a": 1}\n{"b": 2}\n')
    assert [r.value for r in LogSource([path]).records()] == [b'{"a": 1}', b'{"b": 2}']
    path.write_text('{"a":\n{"b": 2}\n')  # a broken first line does not swallow the rest
    assert len(list(LogSource([path]).records())) == 2
