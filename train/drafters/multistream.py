"""Speculative Streaming, lossless: streams beside the target's own guess several tokens at once.

Source: "Speculative Streaming: Fast LLM Inference without Auxiliary Models" (Bhendawade et al., 2024).  Stream j of
position t guesses token t + j + 1 (the LM head guesses t + 1).  It begins as the target's residual stream before its
last N layers, plus an embedding of the stream, and runs through these layers, frozen: its attention sees the target's
keys and values of positions up to t and the streams 1..j of t, and an adapter of low rank replaces the MLP.  Only
embeddings and adapters are trained.

Without embeddings a stream is told apart by RoPE and its values alone: stream j attends to values rotated by j times a
small angle (the paper's value rotation).  No runtime loads these.

The paper leaves open where RoPE puts a stream and whether the final norm applies: here at t + j, and it does.  The loss
compares with the target's distribution instead of its tokens.
"""

from __future__ import annotations

import dataclasses
import math
import re
from typing import List, Optional, Tuple

import torch
from torch import Tensor, nn
import torch.nn.functional as F

from checkpoint import write_folder
from drafters.kind import Guess, Kind
from model import Llama, LlamaConfig, Trace, causal_mask, rope_table, rotate

STREAMS, LAYERS, RANK = 4, 4, 8  # as published


@dataclasses.dataclass
class MultistreamConfig:
    streams: int = STREAMS
    layers: int = LAYERS  # the target's last ones
    rank: int = RANK  # of an adapter
    rotated: bool = False  # values rotated instead of embeddings


class Adapter(nn.Module):
    """A linear map of low rank, 0 at first."""

    def __init__(self, width: int, rank: int):
        super().__init__()
        self.down = nn.Linear(width, rank, bias=False)
        self.up = nn.Linear(rank, width, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        return self.up(self.down(x))


def stream_attention(q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """Attention of the G streams of every position, [B, T, G, H * D].

    q [B, H, T * G, D], k and v [B, K, T * G, D] are those of the streams, position by position; keys and values
    [B, K, T, D] are the target's.
    """
    batch, kv_heads, width, dim = keys.shape
    heads, count = q.shape[1], q.shape[2] // width
    q = q.view(batch, kv_heads, heads // kv_heads, width, count, dim) * dim**-0.5
    k, v = (x.view(batch, kv_heads, 1, width, count, dim) for x in (k, v))
    shape = q.shape[:-1]
    there = torch.matmul(q.flatten(2, 4), keys.transpose(-1, -2)).view(*shape, width)
    there = there + causal_mask(width, device=q.device)[:, None]
    own = torch.matmul(q, k.transpose(-1, -2)) + causal_mask(count, device=q.device)
    weights = torch.cat((there, own), dim=-1).softmax(-1)
    there, own = weights.split((width, count), dim=-1)
    out = torch.matmul(there.flatten(2, 4), values).view(*shape, dim) + torch.matmul(own, v)
    return out.permute(0, 3, 4, 1, 2, 5).reshape(batch, width, count, heads * dim)


class Multistream(nn.Module):
    """The trainable part: an embedding per stream and an adapter per layer."""

    def __init__(self, target: LlamaConfig, config: MultistreamConfig):
        super().__init__()
        if not 1 <= config.layers <= target.num_hidden_layers:
            raise ValueError(
                f"streams run through 1 to {target.num_hidden_layers} of the target's layers, not {config.layers}"
            )
        if config.streams < 1 or config.rank < 1:
            raise ValueError("there must be at least one stream, and adapters of rank 1 or more")
        self.target_config, self.config = target, config
        self.embeddings = nn.ParameterList(
            nn.Parameter(0.02 * torch.randn(target.hidden_size))
            for _ in range(0 if config.rotated else config.streams)
        )
        self.adapters = nn.ModuleList(
            Adapter(target.hidden_size, config.rank) for _ in range(config.layers)
        )

    @property
    def first_layer(self) -> int:
        return self.target_config.num_hidden_layers - self.config.layers

    def turn(self, read: Tensor) -> Tensor:
        """Attention [B, T, G, H * D] with the values of stream j rotated by j times the largest published angle.

        Attention is linear in its values, so its output is rotated instead.
        """
        c = self.target_config
        angle = math.pi / 2 / (c.max_position_embeddings + self.config.streams)
        turns = torch.arange(1, self.config.streams + 1, device=read.device)
        table = rope_table(torch.full((c.head_dim // 2,), angle, device=read.device), turns)
        heads = read.unflatten(-1, (-1, c.head_dim))
        return rotate(heads, *(x[:, None] for x in table)).flatten(-2)

    def features(self, target: Llama, trace: Trace) -> Tensor:
        """[B, T, G, E]: the streams of every position after the final norm."""
        first, count = self.first_layer, self.config.streams
        x = trace.streams[first][:, :, None]
        if self.config.rotated:
            x = x.expand(-1, -1, count, -1)
        else:
            x = x + torch.stack(list(self.embeddings))
        batch, width = x.shape[:2]
        index = torch.arange(width, device=x.device)[:, None]
        positions = index + torch.arange(1, count + 1, device=x.device)
        rope = target.rope(positions.flatten())
        for layer, adapter, keys, values in zip(
            target.model.layers[first:], self.adapters, trace.keys[first:], trace.values[first:]
        ):
            attention = layer.self_attn
            normed = layer.input_layernorm(x).view(batch, width * count, -1)
            k, v = attention.keys_values(normed, rope)
            q = rotate(attention.split(attention.q_proj(normed), attention.heads), *rope)
            read = stream_attention(q, k, v, keys, values)
            if self.config.rotated:
                read = self.turn(read)
            x = x + attention.o_proj(read)
            x = x + adapter(layer.post_attention_layernorm(x))
        return target.model.norm(x)


def multistream_config_json(target: LlamaConfig, config: MultistreamConfig) -> dict:
    return {
        "architectures": ["MultistreamForCausalLM"],
        "model_type": "multistream",
        "torch_dtype": "float32",
        "streams": config.streams,
        **({"value_rotation": True} if config.rotated else {}),
        "stream_layers": config.layers,
        "adapter_rank": config.rank,
        "target_layers": target.num_hidden_layers,
        "vocab_size": target.vocab_size,
        "hidden_size": target.hidden_size,
    }


class MultistreamKind(Kind):
    forms = ("multistream", "multistream-<N>[-r<R>][-g<G>][-rotated]")
    described = (
        (
            "multistream",
            f"Speculative Streaming: {STREAMS} streams through the target's last {LAYERS} layers, "
            f"with adapters of rank {RANK}",
        ),
        (
            "multistream-<N>[-r<R>][-g<G>]",
            "G streams through the last N layers, with adapters of rank R",
        ),
        ("multistream-<N>...-rotated", "values rotated instead of embeddings: no runtime"),
    )
    default_name = "multistream"
    tunes_target = True
    loss_weights = (1.0, 0.0)
    _name = re.compile(r"multistream(?:-(\d+)(?:-r(\d+))?(?:-g(\d+))?(-rotated)?)?")

    def matches(self, name: str) -> bool:
        return self._name.fullmatch(name) is not None

    def make(self, name: str, target: Llama, limit: int) -> Optional[nn.Module]:
        layers, rank, streams, rotated = self._name.fullmatch(name).groups()
        config = MultistreamConfig(
            streams=int(streams) if streams else STREAMS,
            layers=int(layers) if layers else min(LAYERS, target.config.num_hidden_layers),
            rank=int(rank) if rank else RANK,
            rotated=rotated is not None,
        )
        embeddings = 0 if config.rotated else config.streams
        size = target.config.hidden_size * (embeddings + 2 * config.layers * config.rank)
        return Multistream(target.config, config) if size <= limit else None

    def restore(self, target: Llama, config: dict) -> nn.Module:
        return Multistream(target.config, MultistreamConfig(**config))

    def reads(self, drafter: nn.Module) -> List[Tuple[str, int]]:
        first, layers = drafter.first_layer, drafter.target_config.num_hidden_layers
        return [("streams", first)] + [
            (field, layer) for field in ("keys", "values") for layer in range(first, layers)
        ]

    def training_forward(
        self,
        drafter: nn.Module,
        target: Llama,
        tokens: Tensor,
        trace: Trace,
        response: Tensor,
        period: Tensor,
        staircase: Tensor,
    ) -> List[Guess]:
        """Stream j reads what the target knew j positions before the token whose successor it guesses; positions
        before that see zeros."""
        width = tokens.shape[1]
        made = drafter.features(target, trace).unbind(2)
        return [Guess(F.pad(x, (0, 0, j, 0))[:, :width], []) for j, x in enumerate(made, 1)]

    def draft_chain(
        self,
        drafter: nn.Module,
        target: Llama,
        trace: Trace,
        sequence: List[int],
        verified: int,
        depth: int,
    ) -> List[int]:
        features = drafter.features(target, trace.part(0, verified))[0, -1]
        return target.head(features)[:depth].argmax(-1).tolist()

    def write(
        self, folder: str, drafter: nn.Module, tokenizer=None, dtype: Optional[torch.dtype] = None
    ) -> None:
        write_folder(
            folder,
            multistream_config_json(drafter.target_config, drafter.config),
            drafter.state_dict(),
            tokenizer,
            dtype,
        )
