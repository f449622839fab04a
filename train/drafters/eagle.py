"""EAGLE: one decoder layer that continues the target's features, each paired with the token one step ahead.

Source: "EAGLE: Speculative Sampling Requires Rethinking Feature Uncertainty" (Li et al., 2024); EAGLE-2 drafts dynamic trees with
the same network.  "Learning Harmonized Representations for Speculative Sampling" (HASS; Zhang et al., 2024) trains it
on its own features, at the positions at which it reads them while drafting. The loss has a term for the likeliest
tokens.

Input i is fc[embedding of token i + 1; feature i] at RoPE position i. Output i is a guess at feature i + 1, which the
target's LM head reads without a further norm.  Features of verified positions are the target's, later ones its own.
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
from drafters.kind import Guess, Kind, head_counts, mlp_width
from model import (
    Layer,
    Llama,
    LlamaConfig,
    Trace,
    additive,
    causal_mask,
    inverse_frequencies,
    rope_table,
)
from optim import is_residual_output

# Width of the uniform noise on the features, times the batch's width, which is its longest text or slightly more. EAGLE
# trains with one text per batch and so divides by its length.
NOISE = 0.2 * 512
PASSES, TOP_K = 3, 10  # for HASS

Past = Optional[Tuple[Tensor, Tensor]]  # K and V [B, K, S, D]


@dataclasses.dataclass
class EagleConfig:
    """Sizes of a network for one target; ``passes`` selects the training: 1 for EAGLE, more for HASS."""

    heads: int  # query heads; the target has as many or more, all of the same size
    kv_heads: int
    ffn: int = 64
    bias: bool = False  # bias of fc
    passes: int = 1
    embedding_scale: float = (
        1.0  # scales the embeddings that fc reads here; the written fc includes it
    )


class Eagle(nn.Module):
    """The trainable part, named as in the published checkpoints."""

    def __init__(self, target: LlamaConfig, config: EagleConfig):
        super().__init__()
        t = target
        self.target_config, self.config = target, config
        self.fc = nn.Linear(2 * t.hidden_size, t.hidden_size, bias=config.bias)
        self.layers = nn.ModuleList(
            [
                Layer(
                    t.hidden_size,
                    config.heads,
                    config.kv_heads,
                    t.head_dim,
                    config.ffn,
                    t.rms_norm_eps,
                    norm_input=False,
                )
            ]
        )
        self.register_buffer("frequencies", inverse_frequencies(t), persistent=False)
        for name, weight in self.named_parameters():
            if weight.dim() == 2:
                small = is_residual_output(name) or name == "fc.weight"
                nn.init.normal_(weight, std=weight.shape[1] ** -0.5 * (0.1 if small else 1))

    def forward(
        self,
        features: Tensor,
        embeddings: Tensor,
        positions: Tensor,
        mask: Tensor,
        past: Past = None,
    ) -> Tuple[Tensor, Tensor, Tensor]:
        """(guesses at the next features [B, T, E], K, V) for features and embeddings [B, T, E] of inputs at positions [T]."""
        states = self.fc(torch.cat((embeddings * self.config.embedding_scale, features), dim=-1))
        return self.layers[0](states, rope_table(self.frequencies, positions), mask, past)


def behind(past: Past, keys: Tensor, values: Tensor) -> Past:
    return (
        (keys, values)
        if past is None
        else (torch.cat((past[0], keys), 2), torch.cat((past[1], values), 2))
    )


def aligned_mask(rows: int, number: int, device=None) -> Tensor:
    """[T, number * T]: mask of the queries of HASS's pass ``number`` over the keys of passes 1 .. number.

    While the number-th token is drafted, the network has predicted the features of the last number - 1 inputs; older
    ones are the target's. The query's own is from the previous pass, and each earlier input's from one pass before
    that.  So it sees the keys of pass 1 that are number - 1 or more positions earlier, and one key of each later
    pass.  Invisible keys are -inf, so that a row's weights equal those of drafting.
    """
    index = torch.arange(rows, device=device)
    lag = index[:, None] - index
    return additive(
        torch.cat(
            [lag >= number - 1] + [lag == number - source for source in range(2, number + 1)],
            dim=-1,
        )
    )


def training_forward(drafter: Eagle, target: Llama, tokens: Tensor, trace: Trace) -> List[Tensor]:
    """Features [B, T, E] of each pass for tokens [B, T]: at position t the draft after token t, 0 at position 0.

    Pass 1 reads the target's features (with noise in training, in copies that leave the labels exact). Pass m reads
    pass m - 1's features, without gradients through them.
    """
    features, embeddings = trace.feature[:, :-1], target.model.embed_tokens(tokens[:, 1:])
    if drafter.training:
        features = features + (torch.rand_like(features) - 0.5) * (NOISE / tokens.shape[1])
    rows = features.shape[1]
    positions = torch.arange(rows, device=tokens.device)
    past: Past = None
    made: List[Tensor] = []
    for number in range(1, drafter.config.passes + 1):
        out, keys, values = drafter(
            features, embeddings, positions, aligned_mask(rows, number, tokens.device), past
        )
        past = behind(past, keys, values)
        made.append(F.pad(out, (0, 0, 1, 0)))
        features = torch.cat((features[:, :1], out[:, :-1].to(features)), dim=1).detach()
    return made


def draft(
    drafter: Eagle, target: Llama, trace: Trace, verified: List[int], path: List[int]
) -> Tensor:
    """Logits [V] after ``path``, whose first token is the root; ``trace`` is the target's trace of the verified tokens.

    Recomputes all inputs for every token of the path: the simple reference for the checks.
    """
    embeddings = target.model.embed_tokens(torch.tensor([(verified + path)[1:]]))
    features = trace.feature
    for rows in range(len(verified), len(verified) + len(path)):
        out = drafter(features, embeddings[:, :rows], torch.arange(rows), causal_mask(rows))[0]
        features = torch.cat((features, out[:, -1:]), 1)
    return target.head(features[0, -1])


def eagle_config_json(target: LlamaConfig, config: EagleConfig) -> dict:
    """Configuration beyond the tensor shapes, and the shapes again for the reader."""
    variant = {"variant": "hass"} if config.passes > 1 else {}
    return {
        **variant,
        "architectures": ["EagleForCausalLM"],
        "model_type": "eagle",
        "hidden_act": "silu",
        "torch_dtype": "float32",
        "bias": config.bias,
        "vocab_size": target.vocab_size,
        "hidden_size": target.hidden_size,
        "num_hidden_layers": 1,
        "num_attention_heads": config.heads,
        "num_key_value_heads": config.kv_heads,
        "head_dim": target.head_dim,
        "intermediate_size": config.ffn,
        "rope_theta": target.rope_theta,
        "rope_scaling": target.rope_scaling,
        "rms_norm_eps": target.rms_norm_eps,
        "max_position_embeddings": target.max_position_embeddings,
    }


class EagleKind(Kind):
    forms = ("eagle", "hass", "hass-<PASSES>")
    described = (
        (
            "eagle",
            "EAGLE and EAGLE-2: one layer that continues the target's features; loss 0.1 * KL + 1 * feature",
        ),
        (
            "hass, hass-2, ...",
            f"the same network, trained as HASS in {PASSES} or N passes, each with the top-token term",
        ),
    )
    default_name = "eagle"
    # Published layout. Later drafts build on its own features, so these matter most: with the other kinds' weights it
    # drafts shorter by a fifth (docs/records/drafters/comparison.md).
    loss_weights = (0.1, 1.0)
    _name = re.compile(r"eagle|hass(?:-([1-9]))?")

    def matches(self, name: str) -> bool:
        return self._name.fullmatch(name) is not None

    def make(self, name: str, target: Llama, limit: int) -> Optional[nn.Module]:
        t = target.config
        # Features are some 30 times as large as embeddings, but the optimiser's steps are equal for the columns of
        # both.
        norm, embedding = target.model.norm.weight, target.model.embed_tokens.weight
        scale = float(norm.pow(2).mean().sqrt() / embedding.pow(2).mean().sqrt())
        for heads in head_counts(t.num_attention_heads):
            config = EagleConfig(
                heads,
                math.gcd(heads, t.num_key_value_heads),
                ffn=4,
                embedding_scale=scale,
                passes=1 if name == "eagle" else int(self._name.fullmatch(name)[1] or PASSES),
            )
            fixed = sum(p.numel() for p in Eagle(t, config).parameters())
            config.ffn = mlp_width(config.ffn + (limit - fixed) // (3 * t.hidden_size))
            if config.ffn >= 8:
                return Eagle(t, config)
        return None

    def restore(self, target: Llama, config: dict) -> nn.Module:
        t = target.config
        return Eagle(
            t,
            EagleConfig(
                **{"heads": t.num_attention_heads, "kv_heads": t.num_key_value_heads, **config}
            ),
        )

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
        top_k = TOP_K if drafter.config.passes > 1 else 0
        return [
            Guess(feature, [(feature, trace.feature)], top_k=top_k)
            for feature in training_forward(drafter, target, tokens, trace)
        ]

    def draft_chain(
        self,
        drafter: nn.Module,
        target: Llama,
        trace: Trace,
        sequence: List[int],
        verified: int,
        depth: int,
    ) -> List[int]:
        embed = target.model.embed_tokens
        features, tokens, past, path = (
            trace.feature[:, :verified],
            sequence[1 : verified + 1],
            None,
            [],
        )
        for begin in range(verified - 1, verified - 1 + depth):
            rows = features.shape[1]
            positions = torch.arange(begin + 1 - rows, begin + 1)
            out, keys, values = drafter(
                features,
                embed(torch.tensor([tokens])),
                positions,
                causal_mask(rows, begin + 1),
                past,
            )
            past, features = behind(past, keys, values), out[:, -1:]
            tokens = [int(target.head(out[0, -1]).argmax())]
            path += tokens
        return path

    def write(
        self, folder: str, drafter: nn.Module, tokenizer=None, dtype: Optional[torch.dtype] = None
    ) -> None:
        weights, width = drafter.state_dict(), drafter.target_config.hidden_size
        weights["fc.weight"] = weights["fc.weight"].clone()
        weights["fc.weight"][:, :width] *= drafter.config.embedding_scale
        write_folder(
            folder,
            eagle_config_json(drafter.target_config, drafter.config),
            weights,
            tokenizer,
            dtype,
        )
