"""The Llama decoder in plain PyTorch (no third-party model library).

The module tree uses the Hugging Face names, so ``state_dict()`` of a :class:`Llama` has the content of a
``LlamaForCausalLM`` checkpoint (``model.layers.0.self_attn.q_proj.weight`` and so on).

Shape letters used in this folder:
    B batch rows, T tokens in a row, E residual width, H query heads, K key/value heads, D head size,
    F width of the SwiGLU layer, L layers, V vocabulary.  E_kv = K * D.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Dict, List, Optional, Tuple

import torch
from torch import Tensor, nn
import torch.nn.functional as F

from optim import is_residual_output


@dataclasses.dataclass
class LlamaConfig:
    """Sizes of one decoder; field names follow Hugging Face ``config.json``."""

    vocab_size: int = 4096
    hidden_size: int = 256
    num_hidden_layers: int = 6
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 64
    intermediate_size: int = 704
    rms_norm_eps: float = 1e-5
    rope_theta: float = 10000.0
    rope_scaling: Optional[
        dict
    ] = None  # None, {"rope_type": "linear", "factor": f} or {"rope_type": "llama3", ...}
    tie_word_embeddings: bool = True
    attention_bias: bool = False  # bias on q, k and v (Qwen2 style); o_proj never has one
    max_position_embeddings: int = 1024

    @property
    def kv_width(self) -> int:
        """E_kv, values per layer and token in K (and as many in V)."""
        return self.num_key_value_heads * self.head_dim


def inverse_frequencies(config: LlamaConfig, head_dim: Optional[int] = None) -> Tensor:
    """RoPE frequencies in radians per position, shape [D/2], with the configured scaling applied.

    ``llama3`` scaling keeps short wavelengths, divides long ones by ``factor`` and blends between
    (Llama 3.1 model card); ``linear`` divides all of them.
    """
    dim = head_dim or config.head_dim
    freq = config.rope_theta ** (-torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    scaling = config.rope_scaling or {}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    if kind == "linear":
        freq = freq / scaling["factor"]
    elif kind == "llama3":
        low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
        original = scaling["original_max_position_embeddings"]
        turns = original * freq / (2 * math.pi)  # full turns inside the original context
        blend = ((turns - low) / (high - low)).clamp(0, 1)  # 0: fully slowed down, 1: unchanged
        freq = freq * blend + freq / scaling["factor"] * (1 - blend)
    elif kind != "default":
        raise ValueError(f"unknown RoPE scaling '{kind}' (known: default, linear, llama3)")
    return freq.float()


def rope_table(freq: Tensor, positions: Tensor) -> Tuple[Tensor, Tensor]:
    """cos and sin, each [..., D], for integer ``positions`` [...]: half-split layout, halves repeated, the first of sin negated."""
    angle = positions[..., None].to(freq) * freq
    angle = torch.cat((-angle, angle), dim=-1)
    return angle.cos(), angle.sin()


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Applies RoPE to x [..., T, D], given a rope_table: the pair is (x[i], x[i + D/2])."""
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat((b, a), dim=-1) * sin


class _RmsNormFunction(torch.autograd.Function):
    """RMSNorm with a hand-written gradient: fewer passes over memory than autograd's."""

    @staticmethod
    def forward(ctx, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        scale = x.pow(2).mean(-1, keepdim=True).add_(eps).rsqrt_()
        normed = x * scale
        ctx.save_for_backward(normed, weight, scale)
        return normed * weight

    @staticmethod
    def backward(ctx, grad: Tensor):
        normed, weight, scale = ctx.saved_tensors
        grad_weight = (grad * normed).flatten(0, -2).sum(0) if ctx.needs_input_grad[1] else None
        grad = grad * weight
        along = (grad * normed).mean(-1, keepdim=True)
        return torch.addcmul(grad, normed, -along).mul_(scale), grad_weight, None


class RmsNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * weight, over the last axis."""

    def __init__(self, size: int, eps: float):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        return _RmsNormFunction.apply(x, self.weight, self.eps)


def grouped_attention(q: Tensor, k: Tensor, v: Tensor, mask: Optional[Tensor]) -> Tensor:
    """Grouped-query attention.

    q [B, H, T, D], k and v [B, K, S, D]; mask is added to the scores: [T, S] or [B, T, S], 0 or -inf.
    Returns [B, T, H * D].  Query head h reads key/value head h // (H / K).
    """
    batch, heads, rows, dim = q.shape
    kv_heads, cols = k.shape[1], k.shape[2]
    group = heads // kv_heads
    scores = torch.matmul(
        q.reshape(batch, kv_heads, group * rows, dim) * dim**-0.5, k.transpose(-1, -2)
    )
    scores = scores.view(batch, kv_heads, group, rows, cols)
    if mask is not None:
        scores = scores + (mask[:, None, None] if mask.dim() == 3 else mask)
    weights = scores.softmax(-1).view(batch, kv_heads, group * rows, cols)
    out = torch.matmul(weights, v).view(batch, heads, rows, dim)
    return out.transpose(1, 2).reshape(batch, rows, heads * dim)


class Attention(nn.Module):
    """Projections of one attention layer.  Queries and memory may differ (cross-attention)."""

    def __init__(self, width: int, heads: int, kv_heads: int, head_dim: int, bias: bool = False):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, head_dim
        self.q_proj = nn.Linear(width, heads * head_dim, bias=bias)
        self.k_proj = nn.Linear(width, kv_heads * head_dim, bias=bias)
        self.v_proj = nn.Linear(width, kv_heads * head_dim, bias=bias)
        self.o_proj = nn.Linear(heads * head_dim, width, bias=False)

    def split(self, x: Tensor, heads: int) -> Tensor:
        """[B, T, heads * D] -> [B, heads, T, D]"""
        return x.view(x.shape[0], x.shape[1], heads, self.head_dim).transpose(1, 2)

    def keys_values(self, memory: Tensor, rope) -> Tuple[Tensor, Tensor]:
        """Post-RoPE K and V of ``memory`` [B, S, width], each [B, K, S, D]."""
        k = rotate(self.split(self.k_proj(memory), self.kv_heads), *rope)
        return k, self.split(self.v_proj(memory), self.kv_heads)

    def attend(self, x: Tensor, rope, k: Tensor, v: Tensor, mask: Optional[Tensor]) -> Tensor:
        """Output [B, T, width] of queries from x [B, T, width] over the given K and V."""
        q = rotate(self.split(self.q_proj(x), self.heads), *rope)
        return self.o_proj(grouped_attention(q, k, v, mask))


class Mlp(nn.Module):
    """SwiGLU: W_down(silu(W_gate x) * W_up x)."""

    def __init__(self, width: int, hidden: int):
        super().__init__()
        self.gate_proj = nn.Linear(width, hidden, bias=False)
        self.up_proj = nn.Linear(width, hidden, bias=False)
        self.down_proj = nn.Linear(hidden, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """One pre-norm decoder layer; without ``norm_input`` its attention reads the unnormalised input."""

    def __init__(
        self,
        width: int,
        heads: int,
        kv_heads: int,
        head_dim: int,
        hidden: int,
        eps: float,
        bias: bool = False,
        norm_input: bool = True,
    ):
        super().__init__()
        self.self_attn = Attention(width, heads, kv_heads, head_dim, bias)
        self.mlp = Mlp(width, hidden)
        self.input_layernorm = RmsNorm(width, eps) if norm_input else nn.Identity()
        self.post_attention_layernorm = RmsNorm(width, eps)

    def forward(
        self, x: Tensor, rope, mask: Optional[Tensor], past: Optional[Tuple[Tensor, Tensor]] = None
    ):
        """x [B, T, E] -> (x', K, V).  ``past`` holds post-RoPE K and V before the new ones."""
        normed = self.input_layernorm(x)
        k, v = self.self_attn.keys_values(normed, rope)
        all_k, all_v = k, v
        if past is not None:
            all_k, all_v = torch.cat((past[0], k), dim=2), torch.cat((past[1], v), dim=2)
        x = x + self.self_attn.attend(normed, rope, all_k, all_v, mask)
        return x + self.mlp(self.post_attention_layernorm(x)), k, v


def causal_mask(rows: int, cols: Optional[int] = None, device=None) -> Tensor:
    """[rows, cols] of 0 and -inf; the last row sees every column."""
    cols = rows if cols is None else cols
    return torch.full((rows, cols), float("-inf"), device=device).triu(1 + cols - rows)


def additive(visible: Tensor) -> Tensor:
    """0 if visible, else -inf."""
    return torch.zeros(visible.shape, device=visible.device).masked_fill_(~visible, float("-inf"))


@dataclasses.dataclass
class Trace:
    """The target's results that a drafter may read."""

    logits: Optional[Tensor]  # [B, T, V]; None without the head
    feature: Tensor  # [B, T, E] after the final norm: the head's input
    streams: List[Tensor]  # L + 1 tensors [B, T, E]: what enters each layer and the final norm
    keys: List[Tensor]  # L tensors [B, K, T, D], after RoPE
    values: List[Tensor]  # L tensors [B, K, T, D]

    def part(self, begin: int, end: int) -> Trace:
        """The trace of positions begin..end - 1, without logits."""
        return Trace(
            None,
            self.feature[:, begin:end],
            [x[:, begin:end] for x in self.streams],
            [k[:, :, begin:end] for k in self.keys],
            [v[:, :, begin:end] for v in self.values],
        )


class Llama(nn.Module):
    """A Llama or Qwen2 decoder."""

    def __init__(self, config: LlamaConfig):
        super().__init__()
        self.config = config
        c = config
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(c.vocab_size, c.hidden_size)
        self.model.layers = nn.ModuleList(
            Layer(
                c.hidden_size,
                c.num_attention_heads,
                c.num_key_value_heads,
                c.head_dim,
                c.intermediate_size,
                c.rms_norm_eps,
                c.attention_bias,
            )
            for _ in range(c.num_hidden_layers)
        )
        self.model.norm = RmsNorm(c.hidden_size, c.rms_norm_eps)
        if not c.tie_word_embeddings:
            self.lm_head = nn.Linear(c.hidden_size, c.vocab_size, bias=False)
        self.register_buffer("frequencies", inverse_frequencies(c), persistent=False)
        self.apply(self._initialise)
        # The embedding dominates the residual stream at first: layer outputs grow to its size, and a token's identity
        # must not drown in them. The final norm compensates for it in a tied head.
        for name, parameter in self.named_parameters():
            if is_residual_output(name):
                parameter.data.mul_(0.1)
        if c.tie_word_embeddings:
            self.model.norm.weight.data.fill_(0.3 * c.hidden_size**-0.5)

    @staticmethod
    def _initialise(module: nn.Module) -> None:
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(
                module.weight,
                std=1.0 if isinstance(module, nn.Embedding) else module.weight.shape[1] ** -0.5,
            )

    @property
    def head_weight(self) -> Tensor:
        """[V, E]"""
        return (
            self.model.embed_tokens.weight
            if self.config.tie_word_embeddings
            else self.lm_head.weight
        )

    def head(self, feature: Tensor) -> Tensor:
        """Logits [..., V] of post-norm features [..., E]."""
        return feature @ self.head_weight.t()

    def rope(self, positions: Tensor) -> Tuple[Tensor, Tensor]:
        """RoPE tables for ``positions`` [T]."""
        return rope_table(self.frequencies, positions)

    def forward(
        self,
        tokens: Tensor,
        past: Optional[List[Tuple[Tensor, Tensor]]] = None,
        mask: Optional[Tensor] = None,
        positions: Optional[Tensor] = None,
        head: bool = True,
    ) -> Trace:
        """Runs tokens [B, T] after an optional cache ``past`` (L pairs of [B, K, S, D]).

        Without ``mask`` and ``positions`` the tokens are a causal continuation of the cache.
        """
        start = past[0][0].shape[2] if past else 0
        rows = tokens.shape[1]
        if mask is None:
            mask = causal_mask(rows, start + rows, tokens.device)
        if positions is None:
            positions = torch.arange(start, start + rows, device=tokens.device)
        rope = self.rope(positions)
        x = self.model.embed_tokens(tokens)
        streams, keys, values = [], [], []
        for index, layer in enumerate(self.model.layers):
            streams.append(x)
            x, k, v = layer(x, rope, mask, past[index] if past else None)
            keys.append(k)
            values.append(v)
        streams.append(x)
        feature = self.model.norm(x)
        return Trace(self.head(feature) if head else None, feature, streams, keys, values)

    def count_parameters(self) -> int:
        """All parameters; a tied embedding counts once."""
        return sum(p.numel() for p in self.parameters())


class Cache:
    """Growing K and V of a :class:`Llama` for sequences of one length; crop to roll back."""

    def __init__(self) -> None:
        self.length = 0
        self.kept: List[
            Tuple[Tensor, Tensor]
        ] = []  # with spare capacity, so that few steps copy all of them

    def __len__(self) -> int:
        return self.length

    @property
    def past(self) -> Optional[List[Tuple[Tensor, Tensor]]]:
        return (
            [(k[:, :, : self.length], v[:, :, : self.length]) for k, v in self.kept]
            if self.kept
            else None
        )

    def append(self, trace: Trace) -> None:
        new = list(zip(trace.keys, trace.values))
        begin, self.length = self.length, self.length + new[0][0].shape[2]
        if not self.kept or self.kept[0][0].shape[2] < self.length:
            room = (0, 0, 0, max(self.length, 2 * begin) - begin)
            old = [(k[:, :, :begin], v[:, :, :begin]) for k, v in self.kept] or [
                (k[:, :, :0], v[:, :, :0]) for k, v in new
            ]
            self.kept = [(F.pad(k, room), F.pad(v, room)) for k, v in old]
        for (k, v), (new_k, new_v) in zip(self.kept, new):
            k[:, :, begin : self.length], v[:, :, begin : self.length] = new_k, new_v

    def crop(self, length: int) -> None:
        self.length = min(length, self.length)

    def select(self, rows: List[int]) -> None:
        """Keeps only these sequences."""
        self.kept = [(k[rows], v[rows]) for k, v in self.kept]


def config_from_dict(values: Dict) -> LlamaConfig:
    """Picks the known fields out of a ``config.json``-like dictionary."""
    known = {field.name for field in dataclasses.fields(LlamaConfig)}
    return LlamaConfig(**{key: value for key, value in values.items() if key in known})
