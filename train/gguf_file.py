"""Reads and writes GGUF files: metadata, and tensors in order."""

from __future__ import annotations

import struct
from typing import Any, BinaryIO, Dict, List, Mapping, Sequence, Tuple, Union

import numpy

ALIGNMENT = 32  # tensor alignment, if the file has no key
NUMBERS = {
    0: "B",
    1: "b",
    2: "H",
    3: "h",
    4: "I",
    5: "i",
    6: "f",
    7: "?",
    10: "Q",
    11: "q",
    12: "d",
}  # by value type
STRING, ARRAY = 8, 9
WRITTEN = {bool: 7, int: 4, float: 6, str: STRING}  # value type of a single value
WRITTEN_ELEMENTS = {**WRITTEN, int: 5}  # of an array's elements
ELEMENTS = 32  # values per Q8_0 block
F32, F16, Q8_0 = 0, 1, 8  # tensor types


class Reader:
    """Reads numbers and strings of a file in order."""

    def __init__(self, data: bytes):
        self.data, self.at = data, 0

    def number(self, form: str) -> Any:
        (value,) = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return value

    def string(self) -> str:
        length = self.number("Q")
        if length > len(self.data) - self.at:
            raise ValueError("truncated within a string")
        self.at += length
        return self.data[self.at - length : self.at].decode("utf-8")

    def value(self, kind: int) -> Any:
        if kind == STRING:
            return self.string()
        if kind == ARRAY:
            element, count = self.number("I"), self.number("Q")
            return [self.value(element) for _ in range(count)]
        if kind not in NUMBERS:
            raise ValueError(f"a value has the unknown type {kind}")
        return self.number(NUMBERS[kind])


def array(data: bytes, begin: int, kind: int, shape: List[int], name: str) -> numpy.ndarray:
    """A tensor in 32 bits."""
    count = int(numpy.prod(shape, dtype=numpy.int64))
    if kind == Q8_0:
        if shape[-1] % ELEMENTS:
            raise ValueError(f"the rows of {name} are not a whole number of blocks")
        count, form = count // ELEMENTS, numpy.dtype(
            [("scale", "<f2"), ("numbers", "i1", ELEMENTS)]
        )
        blocks = numpy.frombuffer(data, form, count, begin)
        return (blocks["scale"].astype(numpy.float32)[:, None] * blocks["numbers"]).reshape(shape)
    if kind not in (F32, F16):
        raise ValueError(f"{name} has type {kind}; expected F32 (0), F16 (1) or Q8_0 (8)")
    return (
        numpy.frombuffer(data, "<f4" if kind == F32 else "<f2", count, begin)
        .astype(numpy.float32)
        .reshape(shape)
    )


def read_gguf(data: bytes) -> Tuple[Dict[str, Any], Dict[str, numpy.ndarray]]:
    """(metadata, tensors in 32 bits, outermost dimension first).  Raises ValueError for another format."""
    if data[:4] != b"GGUF":
        raise ValueError("not a GGUF file")
    reader = Reader(data)
    reader.at = 4
    try:
        version, tensor_count, value_count = (
            reader.number("I"),
            reader.number("Q"),
            reader.number("Q"),
        )
        if version not in (2, 3):
            raise ValueError(f"GGUF version {version}; expected 2 or 3")
        metadata = {}
        for _ in range(value_count):
            key = reader.string()
            metadata[key] = reader.value(reader.number("I"))
        entries = []
        for _ in range(tensor_count):
            name = reader.string()
            shape = [reader.number("Q") for _ in range(reader.number("I"))][::-1]
            entries.append((name, shape, reader.number("I"), reader.number("Q")))
    except struct.error:
        raise ValueError("truncated within its header") from None
    alignment = metadata.get("general.alignment", ALIGNMENT)
    start = -(-reader.at // alignment) * alignment
    tensors = {}
    for name, shape, kind, offset in entries:
        try:
            tensors[name] = array(data, start + offset, kind, shape, name)
        except ValueError as error:
            raise ValueError(
                "truncated within its tensors" if "buffer" in str(error) else str(error)
            ) from None
    return metadata, tensors


def string(value: str) -> bytes:
    raw = value.encode()
    return struct.pack("<Q", len(raw)) + raw


def typed_value(value: Any) -> bytes:
    """A metadata value behind its type; the elements of a list have one type."""
    if isinstance(value, list):
        kind = WRITTEN_ELEMENTS[type(value[0])]
        head = struct.pack("<IIQ", ARRAY, kind, len(value))
        if kind == STRING:
            return head + b"".join(map(string, value))
        return head + struct.pack(f"<{len(value)}{NUMBERS[kind]}", *value)
    kind = WRITTEN[type(value)]
    content = string(value) if kind == STRING else struct.pack("<" + NUMBERS[kind], value)
    return struct.pack("<I", kind) + content


def write_gguf(
    out: BinaryIO,
    metadata: Mapping[str, Any],
    tensors: Mapping[str, Tuple[int, Sequence[int], Union[bytes, numpy.ndarray]]],
) -> None:
    """Tensors by name: type, shape (outermost dimension first, as read_gguf has it) and content."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        head += string(key) + typed_value(value)
    at = 0
    for name, (kind, shape, content) in tensors.items():
        size = memoryview(content).nbytes
        head += string(name) + struct.pack(
            f"<I{len(shape)}QIQ", len(shape), *reversed(shape), kind, at
        )
        at += size + -size % ALIGNMENT
    out.write(head + bytes(-len(head) % ALIGNMENT))
    for _, _, content in tensors.values():
        out.write(content)
        out.write(bytes(-memoryview(content).nbytes % ALIGNMENT))
