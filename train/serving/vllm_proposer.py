"""Adapter for vLLM's custom proposer: drafts from hints behind a Unix socket. EXPERIMENTAL.

Untested against the real vLLM. `test_vllm_proposer.py` checks it against a stub of the interface
that vLLM's `CustomClassProposer` (vllm/v1/spec_decode/custom_class_proposer.py) calls. vLLM verifies
the drafts by rejection sampling, so answers keep their distribution. Draws are not keyed by
position as in docs/protocol.md, so sampled answers of one seed may differ from edgedraft-server's.

Set `custom_proposer_backend` of vLLM's speculative configuration to `vllm_proposer.HintProposer`
with this folder in PYTHONPATH, and in the environment
  EDGEDRAFT_HINTS_SOCKET      path of the socket (required)
  EDGEDRAFT_HINTS_TIMEOUT_MS  longest delay of a decoding step, 1 to 100 (default 2)

Protocol on the socket, integers little-endian, one reply per request, in order:
  request  bytes u32 | version u16 = 1 | rows u16, then per row
           position u32 | prefix_hash u64 | tokens_max u16
  reply    bytes u32 | version u16 = 1 | rows u16, then per row, as in the request
           count u16 (0: no hints; at most tokens_max) | count tokens, u32 each
`bytes` counts what follows it. `position` and `prefix_hash` identify the text before the drafts as
in `Hints` of docs/protocol.md. A reply that is late or malformed closes the connection. The next
attempt follows after RETRY_SECONDS; until then no row has drafts.
"""

import os
import socket
import struct
import time

VERSION = 1
# Bounds a request; further rows of a batch have no drafts.
ROWS_MAX = 1024
# Bounds a reply; longer drafts are not requested.
TOKENS_MAX = 255
# Tokens hashed between two looks at the clock.
HASH_CHUNK = 256
# Bounds the cost of an absent or faulty server.
RETRY_SECONDS = 0.5

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15
_HEADER = struct.Struct("<IHH")
_ROW = struct.Struct("<IQH")
_COUNT = struct.Struct("<H")


def prefix_hash(tokens, before=0):
    """Hash of docs/protocol.md over `tokens`, continued from the hash of the tokens before them."""
    for token in tokens:
        h = (before + _GAMMA * (token + 1)) & _MASK
        h = ((h ^ (h >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        h = ((h ^ (h >> 27)) * 0x94D049BB133111EB) & _MASK
        before = h ^ (h >> 31)
    return before


class HintProposer:
    """The class that vLLM constructs and calls once per decoding step, on one thread."""

    def __init__(self, vllm_config):
        self.path = os.environ.get("EDGEDRAFT_HINTS_SOCKET", "")
        if not self.path:
            raise ValueError("EDGEDRAFT_HINTS_SOCKET: expected the path of a Unix socket")
        text = os.environ.get("EDGEDRAFT_HINTS_TIMEOUT_MS", "2")
        if not text.isdecimal() or not 1 <= int(text) <= 100:
            raise ValueError("EDGEDRAFT_HINTS_TIMEOUT_MS: expected an integer from 1 to 100")
        self.timeout = int(text) / 1000
        self.tokens_max = min(vllm_config.speculative_config.num_speculative_tokens, TOKENS_MAX)
        self.max_model_len = vllm_config.model_config.max_model_len
        self.vocab_size = vllm_config.model_config.get_vocab_size()
        self._hashed = {}  # row -> (tokens, their hash)
        self._socket = None
        self._retry_at = 0.0

    def load_model(self, *args, **kwargs):
        """Does nothing: the hints come from outside."""

    def propose(self, sampled_token_ids, num_tokens_no_spec, token_ids_cpu, slot_mappings=None):
        """Returns one draft per row, empty if there is none in time. Never raises on hints."""
        drafts = [[] for _ in sampled_token_ids]
        deadline = time.monotonic() + self.timeout
        for row in [row for row in self._hashed if row >= len(drafts)]:
            del self._hashed[row]
        if self._socket is None and time.monotonic() < self._retry_at:
            return drafts
        rows = []
        for row, sampled in enumerate(sampled_token_ids[:ROWS_MAX]):
            length = int(num_tokens_no_spec[row])
            tokens_max = min(self.tokens_max, self.max_model_len - length)
            # A row without a sampled token is in the middle of its prompt.
            if not len(sampled) or length < 1 or tokens_max < 1:
                continue
            digest = self._digest(row, token_ids_cpu[row][:length], deadline)
            if digest is not None:
                rows.append((row, length, digest, tokens_max))
        if rows:
            try:
                for (row, *_), draft in zip(rows, self._ask(rows, deadline)):
                    drafts[row] = draft
            except (OSError, ValueError):
                self._disconnect()
        return drafts

    def _digest(self, row, tokens, deadline):
        """Hash of a row's text, or None if the deadline came first; the next call continues."""
        tokens = tokens.tolist() if hasattr(tokens, "tolist") else list(tokens)
        known, digest = self._hashed.get(row, ([], 0))
        if tokens[: len(known)] != known:
            known, digest = [], 0
        done = len(known)
        while done < len(tokens) and time.monotonic() < deadline:
            digest = prefix_hash(tokens[done : done + HASH_CHUNK], digest)
            done = min(done + HASH_CHUNK, len(tokens))
        self._hashed[row] = (tokens[:done], digest)
        return digest if done == len(tokens) else None

    def _ask(self, rows, deadline):
        if self._socket is None:
            self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            self._wait_until(deadline)
            self._socket.connect(self.path)
        body = b"".join(_ROW.pack(*fields) for _, *fields in rows)
        self._wait_until(deadline)
        self._socket.sendall(_HEADER.pack(4 + len(body), VERSION, len(rows)) + body)
        size, version, count = _HEADER.unpack(self._receive(_HEADER.size, deadline))
        size_max = 4 + sum(_COUNT.size + 4 * tokens_max for *_, tokens_max in rows)
        if version != VERSION or count != len(rows) or not 4 <= size <= size_max:
            raise ValueError("reply: header out of range")
        body = self._receive(size - 4, deadline)
        drafts, offset = [], 0
        for *_, tokens_max in rows:
            if offset + _COUNT.size > len(body):
                raise ValueError("reply: truncated")
            (count,) = _COUNT.unpack_from(body, offset)
            offset += _COUNT.size
            if count > tokens_max or offset + 4 * count > len(body):
                raise ValueError("reply: count out of range")
            draft = list(struct.unpack_from(f"<{count}I", body, offset))
            offset += 4 * count
            if any(token >= self.vocab_size for token in draft):
                raise ValueError("reply: token beyond the vocabulary")
            drafts.append(draft)
        if offset != len(body):
            raise ValueError("reply: bytes after the last row")
        return drafts

    def _receive(self, size, deadline):
        data = bytearray()
        while len(data) < size:
            self._wait_until(deadline)
            part = self._socket.recv(size - len(data))
            if not part:
                raise ConnectionError("closed by the server")
            data += part
        return bytes(data)

    def _wait_until(self, deadline):
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError("no reply in time")
        self._socket.settimeout(left)

    def _disconnect(self):
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._retry_at = time.monotonic() + RETRY_SECONDS
