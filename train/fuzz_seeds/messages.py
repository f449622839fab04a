"""Messages and streams of the protocol, encoded by flatc."""

import gzip
import json
import os
import struct
import subprocess
import tempfile

from fuzz_seeds.corpus import TESTS, write

SCHEMA = os.path.join(TESTS, "../../shared/protocol/messages.fbs")

KINDS = {
    "Hello": 1,
    "Welcome": 2,
    "Prefill": 3,
    "Activations": 4,
    "Verdict": 6,
    "Resume": 7,
    "Ping": 8,
    "Pong": 9,
    "Cancel": 10,
    "Close": 11,
    "Error": 12,
    "Hints": 13,
}


def payload(table: str, fields: dict) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        source = os.path.join(folder, "message.json")
        with open(source, "w", encoding="utf-8") as file:
            json.dump(fields, file)
        subprocess.run(
            [
                "flatc",
                "--binary",
                "--root-type",
                f"edgedraft.flat.{table}",
                "-o",
                folder,
                SCHEMA,
                source,
            ],
            check=True,
        )
        with open(os.path.join(folder, "message.bin"), "rb") as file:
            return file.read()


def frame(table: str, fields: dict) -> bytes:
    content = payload(table, fields)
    return struct.pack("<HHI", 1, KINDS[table], len(content)) + content


def make_messages() -> None:
    """Messages: a byte that is the kind, then the payload. Streams: a byte for the target, then frames."""
    digest, session = [7] * 32, list(range(16))
    sampling = {"seed": 9, "temperature": 0.75, "top_k": 40, "top_p": 0.5, "min_p": 0.25}
    # Eight rows of the fuzz target's layout: 8 int8 values and two float16 scales each.
    packed = bytes(range(64)) + struct.pack("<16e", *(0.5 for _ in range(16)))
    messages = {
        "hello": (
            "Hello",
            {
                "version_min": 4,
                "version_max": 4,
                "agent": "edgedraft 0.1",
                "token": "secret",
                "target": digest,
                "tokenizer": digest,
                "drafter": digest,
                "drafter_name": "tiny",
                "tap": "rows-2",
            },
        ),
        "welcome": (
            "Welcome",
            {
                "version": 4,
                "session": session,
                "agent": "edgedraft-server 0.1",
                "model": "demo",
                "context_count": 64,
                "nodes_max": 8,
                "scale_groups": [5, 3],
                "hint_nodes_max": 1024,
            },
        ),
        "prefill": (
            "Prefill",
            {
                "round": 1,
                "base_length": 2,
                "tokens": [1, 2, 3],
                "provisional_count": 1,
                "policy": 1,
                "activations_from": 2,
                "sampling": sampling,
            },
        ),
        "run_prefill": (
            "Prefill",
            {
                "round": 1,
                "tokens": [1, 2, 3],
                "sampling": sampling,
                "credit": 40,
                "verdict_rows": True,
                "hold": 2,
            },
        ),
        "constrained_prefill": (
            "Prefill",
            {
                "round": 1,
                "tokens": [1, 2, 3],
                "sampling": sampling,
                "stop": ["\n", "END"],
                "grammar": 'root ::= "a"+',
                "answer_begin": 3,
                "bias_tokens": [7],
                "biases": [-2.5],
                "presence_penalty": 0.5,
                "frequency_penalty": -0.5,
            },
        ),
        "activations": (
            "Activations",
            {
                "round": 1,
                "first": 0,
                "count": 8,
                "codec": 1,
                "data": list(gzip.compress(packed, 9, mtime=0)),
            },
        ),
        "complete_hints": (
            "Hints",
            {
                "round": 1,
                "position": 4,
                "complete": True,
                "nodes": [token | parent << 24 for token, parent in ((5, 0), (6, 0), (7, 2))],
            },
        ),
        "verdict": (
            "Verdict",
            {"round": 2, "length": 5, "next": 7, "ending": 1, "queue_us": 20, "verify_us": 300},
        ),
        "resync_verdict": ("Verdict", {"round": 1, "length": 5, "next": 7, "accepted_count": 1}),
        "drafted_verdict": (
            "Verdict",
            {
                "round": 3,
                "length": 19,
                "next": 77,
                "tokens": [5, 0xFFFFFF],
                "drafted": 62,
                "draft_us": 99,
            },
        ),
        "run_verdict": (
            "Verdict",
            {
                "round": 1,
                "length": 6,
                "next": 77,
                "tokens": [5],
                "activations": [0] * 24,
                "hinted": 3,
                "hints_seen": 4,
            },
        ),
        "hints": (
            "Hints",
            {
                "round": 1,
                "credit": 50,
                "first": 2,
                "position": 4,
                "prefix_hash": 12345,
                "nodes": [token | score << 24 for token, score in ((5, 0), (6, 9), (7, 255))],
                "parents": [0, 1, 3],
            },
        ),
        "resume": (
            "Resume",
            {
                "round": 1,
                "session": session,
                "verified_length": 3,
                "verified_hash": digest,
                "tokens": [4, 5],
                "policy": 1,
                "activations_from": 1,
                "sampling": sampling,
            },
        ),
        "ping": ("Ping", {"nonce": 1}),
        "pong": ("Pong", {"nonce": 1}),
        "cancel": ("Cancel", {"round": 1}),
        "close": ("Close", {"reason": "bye"}),
        "error": ("Error", {"round": 4, "code": 9, "fatal": True, "message": "full"}),
    }
    for name, (table, fields) in messages.items():
        write("messages", name, bytes([KINDS[table]]) + payload(table, fields))

    frames = {name: frame(table, fields) for name, (table, fields) in messages.items()}
    # A client's first messages after sign-in: a session without tokens.
    first_prompt = frame("Prefill", {"round": 1, "tokens": [1, 2, 3], "sampling": sampling})
    run = frame(
        "Prefill",
        {"round": 1, "tokens": [1, 2, 3], "sampling": sampling, "credit": 40, "verdict_rows": True},
    )
    lockstep = frame(
        "Prefill", {"round": 1, "tokens": [1, 2, 3], "sampling": sampling, "credit": 40, "hold": 2}
    )
    streams = {
        "hello": b"\x28" + frames["hello"],
        "resume": b"\xff" + frames["resume"] + frames["ping"],
        "to_client": b"\x05" + frames["welcome"] + frames["ping"] + frames["error"],
        "to_client_verdict": b"\x64" + frames["welcome"] + frames["resync_verdict"],
        "to_server": b"\x90" + first_prompt + frames["cancel"] + frames["ping"] + frames["close"],
        "to_server_lockstep": b"\x80" + lockstep + frames["complete_hints"],
        "to_server_hints": b"\x80" + run + frames["hints"],
    }
    for name, content in streams.items():
        write("frame", name, content)
