"""The adapter for vLLM against a stub of vLLM's interface and a stub of the socket's server."""

import contextlib
import os
import socket
import struct
import tempfile
import threading
import time
import types
import unittest
import unittest.mock

from serving import vllm_proposer
from serving.vllm_proposer import HintProposer, prefix_hash

VOCABULARY = 100


def stub_config(speculative=4, context=32):
    """The fields of VllmConfig that the adapter reads."""
    return types.SimpleNamespace(
        speculative_config=types.SimpleNamespace(num_speculative_tokens=speculative),
        model_config=types.SimpleNamespace(
            max_model_len=context, get_vocab_size=lambda: VOCABULARY
        ),
    )


def call_as_vllm(proposer, texts, sampled=None):
    """Calls propose as CustomClassProposer does, with rows padded to the longest text."""
    width = max(map(len, texts)) + 3
    return proposer.propose(
        sampled_token_ids=[text[-1:] for text in texts] if sampled is None else sampled,
        num_tokens_no_spec=[len(text) for text in texts],
        token_ids_cpu=[text + [0] * (width - len(text)) for text in texts],
        slot_mappings=None,
    )


def encode(drafts):
    body = b"".join(struct.pack(f"<H{len(d)}I", len(d), *d) for d in drafts)
    return struct.pack("<IHH", 4 + len(body), 1, len(drafts)) + body


class StubServer:
    """Answers every request with `answer(rows)`; None leaves it unanswered."""

    def __init__(self, path, answer):
        self.answer = answer
        self.requests = []
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(path)
        self.listener.listen()
        self.thread = threading.Thread(target=self.serve)
        self.thread.start()

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                with connection, contextlib.suppress(OSError, struct.error):
                    self.serve_connection(connection)

    def serve_connection(self, connection):
        stream = connection.makefile("rb")
        while True:
            size, version, count = struct.unpack("<IHH", stream.read(8))
            assert version == 1 and size == 4 + 14 * count
            rows = [struct.unpack("<IQH", stream.read(14)) for _ in range(count)]
            self.requests.append(rows)
            reply = self.answer(rows)
            if reply is not None:
                connection.sendall(reply)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()


class VllmProposerTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path = os.path.join(folder.name, "hints")
        self.set_environment(EDGEDRAFT_HINTS_SOCKET=self.path, EDGEDRAFT_HINTS_TIMEOUT_MS="100")

    def set_environment(self, **values):
        patch = unittest.mock.patch.dict(os.environ, values)
        patch.start()
        self.addCleanup(patch.stop)

    def serve(self, answer):
        server = StubServer(self.path, answer)
        self.addCleanup(server.close)
        return server

    def proposer(self, **config):
        proposer = HintProposer(stub_config(**config))
        self.addCleanup(proposer._disconnect)
        return proposer

    def test_hashes_prefixes_as_the_protocol_does(self):
        # The value of docs/verifier.md.
        self.assertEqual(prefix_hash([1, 2, 3]), 0x27D1DADE99DDF6A4)
        self.assertEqual(prefix_hash([3], prefix_hash([1, 2])), prefix_hash([1, 2, 3]))

    def test_finds_hints_by_prefix(self):
        known = {prefix_hash([1, 2, 3]): [4, 5], prefix_hash([7, 8]): [9]}
        self.serve(lambda rows: encode([known.get(digest, []) for _, digest, _ in rows]))
        proposer = self.proposer()
        self.assertEqual(call_as_vllm(proposer, [[1, 2, 3], [6], [7, 8]]), [[4, 5], [], [9]])
        # Rows move between requests and their texts grow.
        self.assertEqual(call_as_vllm(proposer, [[7, 8], [1, 2, 3]]), [[9], [4, 5]])
        self.assertEqual(call_as_vllm(proposer, [[7, 8, 9]]), [[]])

    def test_asks_for_no_more_tokens_than_fit(self):
        server = self.serve(lambda rows: encode([[] for _ in rows]))
        proposer = self.proposer(speculative=4, context=6)
        texts = [[1], [1, 2, 3, 4], [1, 2, 3, 4, 5, 6], [1, 2]]
        call_as_vllm(proposer, texts, sampled=[[1], [4], [6], []])
        self.assertEqual([(row[0], row[2]) for row in server.requests[0]], [(1, 4), (4, 2)])

    def test_decodes_without_drafts_if_the_socket_is_absent(self):
        self.assertEqual(call_as_vllm(self.proposer(), [[1, 2]]), [[]])

    def test_gives_up_at_the_deadline_and_does_not_wait_again(self):
        self.set_environment(EDGEDRAFT_HINTS_TIMEOUT_MS="20")
        server = self.serve(lambda rows: None)
        proposer = self.proposer()
        begin = time.monotonic()
        for _ in range(50):
            self.assertEqual(call_as_vllm(proposer, [[1, 2]]), [[]])
        self.assertLess(time.monotonic() - begin, 0.5)
        self.assertEqual(len(server.requests), 1)

    def test_drops_malformed_replies(self):
        good = encode([[4]])
        for reply in (
            encode([[VOCABULARY]]),
            encode([[1, 2, 3, 4, 5]]),
            encode([[1], [2]]),
            good[:4] + b"\2" + good[5:],
            struct.pack("<IHH", 0xFFFFFFFF, 1, 1),
            struct.pack("<IHHHI", 10, 1, 1, 3, 4),
            struct.pack("<IHHHI", 10, 1, 1, 0, 4),
            struct.pack("<IHHB", 5, 1, 1, 0),
        ):
            with self.subTest(reply=reply):
                replies = [reply, good]
                server = StubServer(self.path, lambda rows: replies.pop(0))
                try:
                    proposer = self.proposer()
                    self.assertEqual(call_as_vllm(proposer, [[1]]), [[]])
                    with unittest.mock.patch.object(proposer, "_retry_at", 0.0):
                        self.assertEqual(call_as_vllm(proposer, [[1]]), [[4]])
                    proposer._disconnect()
                finally:
                    server.close()
                    os.remove(self.path)

    def test_continues_long_digests_in_the_next_step(self):
        proposer = self.proposer(context=4096)
        text = list(range(1000))
        with unittest.mock.patch.object(vllm_proposer.time, "monotonic", lambda: next(ticks)):
            ticks = iter([0, 0, 9])
            self.assertIsNone(proposer._digest(0, text, 1))
            ticks = iter([0, 0, 0, 0])
            self.assertEqual(proposer._digest(0, text, 1), prefix_hash(text))

    def test_names_the_variable_that_is_wrong(self):
        for name, value in (
            ("EDGEDRAFT_HINTS_SOCKET", ""),
            ("EDGEDRAFT_HINTS_TIMEOUT_MS", "0"),
            ("EDGEDRAFT_HINTS_TIMEOUT_MS", "soon"),
        ):
            with self.subTest(name=name, value=value):
                with unittest.mock.patch.dict(os.environ, {name: value}):
                    with self.assertRaisesRegex(ValueError, name):
                        HintProposer(stub_config())


if __name__ == "__main__":
    unittest.main()
