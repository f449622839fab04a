"""Tokenizers as SentencePiece and Hugging Face store them, and texts for them."""

import json
import struct

from fuzz_seeds.corpus import write


def make_sentencepiece() -> None:
    def field(number: int, content: bytes) -> bytes:
        return bytes([number << 3 | 2, len(content)]) + content

    pieces = b"".join(
        field(1, field(1, piece.encode()) + b"\x15" + struct.pack("<f", -1.0) + bytes([0x18, kind]))
        for piece, kind in (("<unk>", 2), ("▁a", 1), ("<0x0A>", 6))
    )
    trainer = field(2, b"\x18\x02" + b"\x98\x02\x01" + b"\xc0\x02\x00")
    write("sentencepiece", "three", pieces + trainer + field(3, b"\x18\x00\x20\x00"))


def make_texts() -> None:
    for index, sample in enumerate(
        ["the cat", "  a ", "<s>b</s><|end|>", "ünï 日本 👩‍👩‍👧", "\n\t\0"]
    ):
        write("tokenizer", f"text{index}", sample.encode())
    write("tokenizer", "broken", b"\xff\xc3the\xe2\x82 \xed\xa0\x80")


def letter(byte: int) -> str:
    """How byte-level vocabularies spell a byte below 128."""
    return chr(byte) if 0x21 <= byte <= 0x7E else chr(0x100 + byte + (0 if byte <= 0x20 else -0x5E))


def make_tokenizer_json() -> None:
    letters = {letter(byte): byte for byte in range(128)}
    special = {
        "id": 130,
        "content": "<s>",
        "special": True,
        "lstrip": False,
        "rstrip": False,
        "normalized": False,
        "single_word": False,
    }
    byte_level = {
        "added_tokens": [special],
        "normalizer": {"type": "NFC"},
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Digits", "individual_digits": True},
                {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True},
            ],
        },
        "post_processor": {
            "type": "TemplateProcessing",
            "single": [
                {"SpecialToken": {"id": "<s>", "type_id": 0}},
                {"Sequence": {"id": "A", "type_id": 0}},
            ],
        },
        "model": {
            "type": "BPE",
            "vocab": {**letters, "th": 128, "the": 129},
            "merges": ["t h", ["th", "e"]],
        },
    }
    write("tokenizer_json", "nfc", json.dumps(byte_level, ensure_ascii=False).encode())
    byte_level["normalizer"] = None
    write("tokenizer_json", "byte_level", json.dumps(byte_level, ensure_ascii=False).encode())
    pieces = {"<unk>": 0, "▁": 1, "a": 2, "▁a": 3, "b": 4, "ab": 5, "<0xFF>": 6}
    llama = {
        "added_tokens": [],
        "pre_tokenizer": None,
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Prepend", "prepend": "▁"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "▁"},
            ],
        },
        "model": {
            "type": "BPE",
            "unk_token": "<unk>",
            "byte_fallback": True,
            "vocab": pieces,
            "merges": ["▁ a", "a b"],
        },
    }
    write("tokenizer_json", "llama", json.dumps(llama, ensure_ascii=False).encode())
    unigram = {
        "pre_tokenizer": {
            "type": "Metaspace",
            "replacement": "▁",
            "prepend_scheme": "first",
            "split": True,
        },
        "model": {
            "type": "Unigram",
            "unk_id": 0,
            "vocab": [["<unk>", 0.0], ["▁", -3.0], ["▁a", -1.5]],
        },
    }
    write("tokenizer_json", "unigram", json.dumps(unigram, ensure_ascii=False).encode())
