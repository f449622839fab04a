"""DFlash: one pass over a block guesses all of its tokens.

Source: "DFlash: Block Diffusion for Flash Speculative Decoding" (arXiv 2602.06036, 2026).  A block is the root and masks
after it.  Its rows attend to each other in both directions, and to keys and values of the target's hidden states before
the root, which fc and a norm fuse into one row per position.  The target's LM head reads the masks' rows.  Layers are
Qwen3's: queries and keys are normed per head.

Training cuts a block at every token of an answer, and no block sees another.  Mask k has weight exp(-(k - 1) / GAMMA)
in the loss, which compares with the target's distribution.  The published training takes random tokens and cross
entropy.
"""

from __future__ import annotations

import dataclasses
import math
import re
from typing import List, Optional, Tuple

import torch
from torch import Tensor, nn

from checkpoint import write_folder
from drafters.kind import Guess, Kind, head_counts, mlp_width
from model import (
    Attention,
    Llama,
    LlamaConfig,
    Mlp,
    RmsNorm,
    Trace,
    additive,
    inverse_frequencies,
    rope_table,
    rotate,
)
from optim import is_residual_output

LAYERS = 2
BLOCK = 7  # the root and a mask per level of a tree of the usual depth
GAMMA = 4.0  # masks over which the weights of the loss fall by e


@dataclasses.dataclass
class DflashConfig:
    heads: int  # query heads; the target has as many or more, all of the same size
    kv_heads: int
    ffn: int
    layers: int
    states: List[
        int
    ]  # layers of the target whose inputs are fused; its number of layers: the last one's output
    mask_token: int
    block: int = BLOCK


class BlockAttention(Attention):
    """Attention of the rows of blocks [B, A, S, E] over a context of T positions and their own block."""

    def __init__(self, width: int, heads: int, kv_heads: int, head_dim: int, eps: float):
        super().__init__(width, heads, kv_heads, head_dim)
        self.q_norm = RmsNorm(head_dim, eps)
        self.k_norm = RmsNorm(head_dim, eps)

    def keys_values(self, memory: Tensor, rope) -> Tuple[Tensor, Tensor]:
        keys = self.k_norm(self.split(self.k_proj(memory), self.kv_heads))
        return rotate(keys, *rope), self.split(self.v_proj(memory), self.kv_heads)

    def blocks(self, x: Tensor, rope, context: Tensor, context_rope, mask: Tensor) -> Tensor:
        """[B, A, S, E] for x of that shape and context [B, T, E]; mask [B, A, T] is that of each block."""
        batch, count, size, width = x.shape
        flat = x.reshape(batch, count * size, width)
        q = rotate(self.q_norm(self.split(self.q_proj(flat), self.heads)), *rope)
        q = q * self.head_dim**-0.5
        keys, values = self.keys_values(context, context_rope)
        k, v = self.keys_values(flat, rope)
        group, there = self.heads // self.kv_heads, keys.shape[2]
        shape = (batch, self.kv_heads, group, count, size)
        q = q.reshape(*shape, self.head_dim)
        k, v = (own.reshape(batch, self.kv_heads, 1, count, size, self.head_dim) for own in (k, v))
        past = torch.matmul(q.flatten(2, 4), keys.transpose(-1, -2)).view(*shape, there)
        past = past + mask[:, None, None, :, None]
        own = torch.matmul(q, k.transpose(-1, -2))
        weights = torch.cat((past, own.to(past)), dim=-1).softmax(-1)
        past, own = weights.split((there, size), dim=-1)
        out = torch.matmul(past.flatten(2, 4), values.to(past))
        out = out.view(*shape, self.head_dim) + torch.matmul(own, v.to(own))
        return self.o_proj(out.permute(0, 3, 4, 1, 2, 5).reshape(batch, count, size, -1))


class BlockLayer(nn.Module):
    def __init__(self, target: LlamaConfig, config: DflashConfig):
        super().__init__()
        width, eps = target.hidden_size, target.rms_norm_eps
        self.self_attn = BlockAttention(width, config.heads, config.kv_heads, target.head_dim, eps)
        self.mlp = Mlp(width, config.ffn)
        self.input_layernorm = RmsNorm(width, eps)
        self.post_attention_layernorm = RmsNorm(width, eps)

    def forward(self, x: Tensor, *context) -> Tensor:
        x = x + self.self_attn.blocks(self.input_layernorm(x), *context)
        return x + self.mlp(self.post_attention_layernorm(x))


class Dflash(nn.Module):
    """The trainable part, named as in the published checkpoints."""

    def __init__(self, target: LlamaConfig, config: DflashConfig):
        super().__init__()
        width, eps = target.hidden_size, target.rms_norm_eps
        self.target_config, self.config = target, config
        self.fc = nn.Linear(len(config.states) * width, width, bias=False)
        self.hidden_norm = RmsNorm(width, eps)
        self.layers = nn.ModuleList(BlockLayer(target, config) for _ in range(config.layers))
        self.norm = RmsNorm(width, eps)
        self.register_buffer("frequencies", inverse_frequencies(target), persistent=False)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                small = 0.1 if is_residual_output(name) else 1
                nn.init.normal_(weight, std=weight.shape[1] ** -0.5 * small)

    def forward(self, target: Llama, trace: Trace, roots: Tensor, positions: Tensor) -> Tensor:
        """[B, A, S - 1, E]: the masks after the final norm, for roots [B, A] at positions [B, A].

        A block sees the states of ``trace`` before its root.
        """
        batch, count = positions.shape
        size = self.config.block
        context = torch.cat([trace.streams[state] for state in self.config.states], dim=-1)
        context = self.hidden_norm(self.fc(context))
        there = torch.arange(context.shape[1], device=positions.device)
        mask = additive(there < positions[..., None])
        within = positions[..., None] + torch.arange(size, device=positions.device)
        rope = [
            table[:, None] for table in rope_table(self.frequencies, within.flatten(1))
        ]  # of all heads
        tokens = torch.full((batch, count, size), self.config.mask_token, device=roots.device)
        tokens[..., 0] = roots
        x = target.model.embed_tokens(tokens)
        for layer in self.layers:
            x = layer(x, rope, context, rope_table(self.frequencies, there), mask)
        return self.norm(x[:, :, 1:])


def blocks_of(response: Tensor) -> Tensor:
    """[B, A]: positions of the roots, which are those of response [B, T]; shorter rows have further ones."""
    order = response.int().sort(dim=1, descending=True, stable=True).indices
    return order[:, : max(1, int(response.sum(1).max()))]


def dflash_config_json(target: LlamaConfig, config: DflashConfig) -> dict:
    return {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "hidden_act": "silu",
        "torch_dtype": "float32",
        "attention_bias": False,
        "tie_word_embeddings": target.tie_word_embeddings,
        "vocab_size": target.vocab_size,
        "hidden_size": target.hidden_size,
        "num_hidden_layers": config.layers,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": target.head_dim,
        "intermediate_size": config.ffn,
        "rope_theta": target.rope_theta,
        "rope_scaling": target.rope_scaling,
        "rms_norm_eps": target.rms_norm_eps,
        "max_position_embeddings": target.max_position_embeddings,
        "block_size": config.block,
        "dflash_config": {
            "mask_token_id": config.mask_token,
            # A published id is of the layer whose output is read.
            "target_layer_ids": [state - 1 for state in config.states],
        },
    }


class DflashKind(Kind):
    forms = ("dflash", "dflash-<N>")
    described = (
        (
            "dflash, dflash-<N>",
            f"DFlash: one pass of {LAYERS} or N layers over a block of {BLOCK} tokens",
        ),
    )
    default_name = "dflash"
    loss_weights = (1.0, 0.0)
    _name = re.compile(r"dflash(?:-([1-9]))?")

    def matches(self, name: str) -> bool:
        return self._name.fullmatch(name) is not None

    def make(self, name: str, target: Llama, limit: int) -> Optional[nn.Module]:
        t = target.config
        layers = int(self._name.fullmatch(name)[1] or LAYERS)
        states = sorted({max(1, t.num_hidden_layers // 3), t.num_hidden_layers})
        # The layers' outputs must outgrow the mask's embedding.
        mask_token = int(target.model.embed_tokens.weight.pow(2).sum(1).argmin())
        for heads in head_counts(t.num_attention_heads):
            kv_heads = math.gcd(heads, t.num_key_value_heads)
            config = DflashConfig(heads, kv_heads, 4, layers, states, mask_token)
            fixed = sum(p.numel() for p in Dflash(t, config).parameters())
            config.ffn = mlp_width(config.ffn + (limit - fixed) // (3 * t.hidden_size * layers))
            if config.ffn >= 8:
                drafter = Dflash(t, config)
                drafter.norm.weight.data.copy_(target.model.norm.weight)  # as the head expects
                return drafter
        return None

    def restore(self, target: Llama, config: dict) -> nn.Module:
        if max(config["states"]) > target.config.num_hidden_layers:
            raise ValueError(f"it reads the target's layer {max(config['states'])}")
        return Dflash(target.config, DflashConfig(**config))

    def reads(self, drafter: nn.Module) -> List[Tuple[str, int]]:
        return [("streams", state) for state in drafter.config.states]

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
        """Mask k after a root at t guesses at position t + k - 1; positions before an answer's k-th see zeros."""
        roots = blocks_of(response)
        made = drafter(target, trace, tokens.gather(1, roots), roots)
        batch, width = tokens.shape
        guesses = []
        for k, feature in enumerate(made.unbind(2)):
            there = (roots + k)[..., None].expand_as(feature)
            placed = feature.new_zeros(batch, width + k, feature.shape[-1])
            placed = placed.scatter(1, there, feature)[:, :width]
            guesses.append(Guess(placed, [], weight=math.exp(-k / GAMMA)))
        return guesses

    def draft_chain(
        self,
        drafter: nn.Module,
        target: Llama,
        trace: Trace,
        sequence: List[int],
        verified: int,
        depth: int,
    ) -> List[int]:
        root, position = torch.tensor([[sequence[verified]]]), torch.tensor([[verified]])
        features = drafter(target, trace.part(0, verified), root, position)[0, 0]
        return target.head(features[:depth]).argmax(-1).tolist()

    def write(
        self, folder: str, drafter: nn.Module, tokenizer=None, dtype: Optional[torch.dtype] = None
    ) -> None:
        write_folder(
            folder,
            dflash_config_json(drafter.target_config, drafter.config),
            drafter.state_dict(),
            tokenizer,
            dtype,
        )
