"""Mixture of Attentions: a drafter that reads all layers of the target through its key/value cache.

Source: "Mixture of Attentions For Speculative Decoding" (Zimmer et al., 2024), equations of section 3.
Four parts, named as in the published checkpoint:
    layer_self_attention (LSA)  attention over the target's L layers of one token, position = layer index
    Ekv2E                       linear map of the LSA's mean over layers to the residual width: memory c[p]
    self_attention (SA)         a decoder layer over the target's token embeddings
    cross_attention (CA)        a decoder layer whose keys and values come from the memory
The embedding, the LM head, the final norm and, with TLI = t, the last t layers are the target's, frozen.
An arm of Table 5 ("-LSA, o inputs") has neither LSA nor Ekv2E: its memory is the target's feature after the final norm.
Tokens with memory are called verified; a drafted token sees only the memory of the verified ones.
"""

from __future__ import annotations

import dataclasses
import re
from typing import List, Optional, Tuple

import torch
from torch import Tensor, nn

from checkpoint import write_folder
from drafters.kind import Guess, Kind, head_counts, mlp_width
from model import Layer, Llama, LlamaConfig, Trace, additive, inverse_frequencies, rope_table
from optim import is_residual_output

NEGATIVE = float("-inf")


@dataclasses.dataclass
class MoaConfig:
    """Sizes of a drafter for one target.  Heads of SA and CA are as large as the target's."""

    heads: int  # query heads, in SA and CA each; the target has as many or more
    tli: int = 0
    memory: str = "lsa"  # or "o": the target's features
    sa_kv_heads: int = 1
    sa_ffn: int = 64
    ca_kv_heads: int = 1
    ca_ffn: int = 64
    lsa_heads: int = 4  # LSA width is 2 * E_kv = lsa_heads * lsa_head_dim
    lsa_kv_heads: int = 1
    lsa_head_dim: int = 64
    lsa_ffn: int = 32


def layer_rows(keys: List[Tensor], values: List[Tensor]) -> Tensor:
    """LSA input X [B, T, L, 2 * E_kv] from L post-RoPE K and V [B, K, T, D], laid out [K
    V] per key/value head."""
    both = torch.cat(
        (torch.stack(keys, dim=1), torch.stack(values, dim=1)), dim=-1
    )  # [B, L, K, T, 2D]
    batch, layers, heads, rows, width = both.shape
    return both.permute(0, 3, 1, 2, 4).reshape(batch, rows, layers, heads * width)


class Moa(nn.Module):
    """The trainable part.  With an LSA, ``state_dict()`` has exactly the 29 tensors of the published layout."""

    def __init__(self, target: LlamaConfig, config: MoaConfig):
        super().__init__()
        t, c = target, config
        width = 2 * t.kv_width
        if c.lsa_heads * c.lsa_head_dim != width:
            raise ValueError(
                f"LSA: {c.lsa_heads} heads of {c.lsa_head_dim} are not 2 * E_kv = {width}"
            )
        if not 0 <= c.tli < t.num_hidden_layers:
            raise ValueError(f"TLI = {c.tli}, but the target has {t.num_hidden_layers} layers")
        self.target_config, self.config = target, config
        self.self_attention = Layer(
            t.hidden_size, c.heads, c.sa_kv_heads, t.head_dim, c.sa_ffn, t.rms_norm_eps
        )
        self.cross_attention = Layer(
            t.hidden_size, c.heads, c.ca_kv_heads, t.head_dim, c.ca_ffn, t.rms_norm_eps
        )
        if c.memory == "lsa":
            self.layer_self_attention = Layer(
                width, c.lsa_heads, c.lsa_kv_heads, c.lsa_head_dim, c.lsa_ffn, t.rms_norm_eps
            )
            self.Ekv2E = nn.Linear(width, t.hidden_size)
        plain = dataclasses.replace(
            target, rope_scaling=None
        )  # only the SA keeps the target's RoPE scaling
        self.register_buffer("sa_frequencies", inverse_frequencies(target), persistent=False)
        self.register_buffer("ca_frequencies", inverse_frequencies(plain), persistent=False)
        self.register_buffer(
            "lsa_frequencies", inverse_frequencies(plain, c.lsa_head_dim), persistent=False
        )
        for name, weight in self.named_parameters():
            if weight.dim() == 2 and not name.startswith("Ekv2E"):
                nn.init.normal_(
                    weight, std=weight.shape[1] ** -0.5 * (0.1 if is_residual_output(name) else 1)
                )

    def layer_mean(self, keys: List[Tensor], values: List[Tensor]) -> Tensor:
        """m [B, T, 2 * E_kv]: the LSA's output, averaged over the layers of each token."""
        x = layer_rows(keys, values)
        batch, rows, layers, width = x.shape
        rope = rope_table(self.lsa_frequencies, torch.arange(layers, device=x.device))
        out, _, _ = self.layer_self_attention(x.reshape(batch * rows, layers, width), rope, None)
        return out.mean(1).view(batch, rows, width)

    def memory(self, trace: Trace) -> Tensor:
        """c [B, T, E]"""
        return (
            trace.feature
            if self.config.memory == "o"
            else self.Ekv2E(self.layer_mean(trace.keys, trace.values))
        )

    def run_self_attention(self, embeddings: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """SA over embeddings [B, T, E]."""
        return self.self_attention(embeddings, rope_table(self.sa_frequencies, positions), mask)[0]

    def run_cross_attention(
        self,
        states: Tensor,
        positions: Tensor,
        memory: Tensor,
        memory_positions: Tensor,
        visible: Optional[Tensor],
    ) -> Tensor:
        """CA of states [B, T, E] over memory [B, S, E].

        ``visible`` [T, S] or [B, T, S] marks the memory that a query may read; None means all of it.  A query without
        visible memory skips the attention and keeps the MLP.
        """
        layer = self.cross_attention
        if memory.shape[1] > 0:
            k, v = layer.self_attn.keys_values(
                layer.input_layernorm(memory), rope_table(self.ca_frequencies, memory_positions)
            )
            mask = blind = None
            if visible is not None:
                blind = ~visible.any(-1, keepdim=True)
                mask = torch.zeros(visible.shape, device=states.device).masked_fill_(
                    ~(visible | blind), NEGATIVE
                )
            attended = layer.self_attn.attend(
                layer.input_layernorm(states),
                rope_table(self.ca_frequencies, positions),
                k,
                v,
                mask,
            )
            states = states + (attended if blind is None else attended * (~blind))
        return states + layer.mlp(layer.post_attention_layernorm(states))


def sync_positions(response: Tensor, period: Tensor) -> Tensor:
    """s [B, T]: for each position the last synchronised one.

    response [B, T] marks the assistant's tokens, period [B] is the row's e.  A position is synchronised if it belongs
    to a prompt or its index is a multiple of e; there the target has just run.
    """
    index = torch.arange(response.shape[1], device=response.device)
    synced = ~response | (index % period[:, None] == 0)
    return torch.where(synced, index, torch.zeros_like(index)).cummax(-1).values


def memory_visible(sync: Tensor) -> Tensor:
    """[B, T, T]: query i may read memory j iff j <= s(i) and j < i.  Position 0 reads nothing."""
    index = torch.arange(sync.shape[1], device=sync.device)
    return (index <= sync[:, :, None]) & (index < index[:, None])


def self_visible(sync: Tensor, staircase: Tensor) -> Tensor:
    """[B, T, T]: causal; with ``staircase`` [B] only the drafted block s(i) < j <= i, and i itself."""
    index = torch.arange(sync.shape[1], device=sync.device)
    causal = index <= index[:, None]
    block = (index > sync[:, :, None]) | (index == index[:, None])
    return causal & (block | ~staircase[:, None, None])


def run_target_layers(
    target: Llama,
    tli: int,
    states: Tensor,
    positions: Tensor,
    past: List[Tuple[Tensor, Tensor]],
    mask: Tensor,
) -> Tensor:
    """The target's last ``tli`` layers and its final norm on states [B, T, E].

    past holds the true K and V of those layers, [B, K, S, D]; mask [B, T, S + T] covers them, then the keys of these
    states.  Returns the post-norm feature [B, T, E].
    """
    rope = target.rope(positions)
    for layer, true in zip(target.model.layers[len(target.model.layers) - tli :], past):
        states = layer(states, rope, mask, true)[0]
    return target.model.norm(states)


def training_forward(
    drafter: Moa,
    target: Llama,
    tokens: Tensor,
    trace: Trace,
    sync: Tensor,
    staircase: Optional[Tensor] = None,
) -> Tuple[Tensor, Tensor]:
    """(o, feature), both [B, T, E], for every position of tokens [B, T] at once.

    o is the CA's output; feature is the input of the LM head (the same tensor if TLI = 0).  Each position sees what it
    would see while drafting: memory and true K and V up to its limit, drafted ones after it.
    """
    positions = torch.arange(tokens.shape[1], device=tokens.device)
    if staircase is None:
        staircase = torch.zeros(tokens.shape[0], dtype=torch.bool, device=tokens.device)
    embeddings = target.model.embed_tokens(tokens)
    states = drafter.run_self_attention(
        embeddings, positions, additive(self_visible(sync, staircase))
    )
    visible = memory_visible(sync)
    out = drafter.run_cross_attention(states, positions, drafter.memory(trace), positions, visible)
    tli = drafter.config.tli
    if tli == 0:
        return out, out
    drafted = (positions <= positions[:, None]) & ~visible  # own keys after the limit
    mask = additive(torch.cat((visible, drafted), dim=-1))
    past = list(zip(trace.keys[-tli:], trace.values[-tli:]))
    return out, run_target_layers(target, tli, out, positions, past, mask)


class MoaState:
    """Drafting for one sequence: caches as a device would keep them, everything else recomputed.

    ``extend`` receives the target's state of newly verified positions, ``draft`` returns logits of a tree after them.
    It is the simple reference for the checks.
    """

    def __init__(self, drafter: Moa, target: Llama):
        self.drafter, self.target = drafter, target
        self.memory: Optional[Tensor] = None  # [1, n, E]
        self.past: List[Tuple[Tensor, Tensor]] = []  # true K and V of the last TLI layers

    def extend(self, new_positions: Trace) -> None:
        """The target's trace, batch 1, of the A newly verified positions."""
        new = self.drafter.memory(new_positions)
        self.memory = new if self.memory is None else torch.cat((self.memory, new), dim=1)
        tli = self.drafter.config.tli
        fresh = list(zip(new_positions.keys[-tli:], new_positions.values[-tli:])) if tli else []
        self.past = (
            fresh
            if not self.past
            else [
                (torch.cat((a, c), 2), torch.cat((b, d), 2))
                for (a, b), (c, d) in zip(self.past, fresh)
            ]
        )

    def draft(self, verified: List[int], path: List[int]) -> Tensor:
        """Logits [V] after ``path``, whose first token is the root at position n = len(verified)."""
        count = len(verified)
        tokens = torch.tensor([verified + path])
        positions = torch.arange(tokens.shape[1])
        embeddings = self.target.model.embed_tokens(tokens)
        causal = torch.full((tokens.shape[1],) * 2, NEGATIVE).triu(1)
        states = self.drafter.run_self_attention(embeddings, positions, causal)[:, count:]
        own = positions[count:]
        memory = self.memory if self.memory is not None else torch.zeros(1, 0, states.shape[-1])
        out = self.drafter.run_cross_attention(
            states, own, memory[:, :count], positions[:count], None
        )
        tli = self.drafter.config.tli
        if tli:
            rows = len(path)
            mask = torch.cat(
                (torch.zeros(rows, count), torch.full((rows, rows), NEGATIVE).triu(1)), dim=1
            )
            if not self.past:
                shape = (1, self.target.config.num_key_value_heads, 0, self.target.config.head_dim)
                self.past = [(torch.zeros(shape), torch.zeros(shape)) for _ in range(tli)]
            out = run_target_layers(
                self.target,
                tli,
                out,
                own,
                [(k[:, :, :count], v[:, :, :count]) for k, v in self.past],
                mask,
            )
        return self.target.head(out)[0, -1]


def moa_config_json(target: LlamaConfig, config: MoaConfig) -> dict:
    """Configuration beyond the tensor shapes, and the shapes again for the reader."""
    arm = {} if config.memory == "lsa" else {"memory": config.memory}
    return {
        **arm,
        "architectures": ["MoASpecForCausalLM"],
        "model_type": "moa_spec",
        "torch_dtype": "float32",
        "tli": config.tli,
        "target_layers": target.num_hidden_layers,
        "vocab_size": target.vocab_size,
        "hidden_size": target.hidden_size,
        "num_attention_heads": config.heads,
        "num_key_value_heads": target.num_key_value_heads,
        "head_dim": target.head_dim,
        "rope_theta": target.rope_theta,
        "rope_scaling": target.rope_scaling,
        "rms_norm_eps": target.rms_norm_eps,
        "max_position_embeddings": target.max_position_embeddings,
        "sa_num_key_value_heads": config.sa_kv_heads,
        "sa_intermediate_size": config.sa_ffn,
        "ca_num_key_value_heads": config.ca_kv_heads,
        "ca_intermediate_size": config.ca_ffn,
        "lsa_num_attention_heads": config.lsa_heads,
        "lsa_num_key_value_heads": config.lsa_kv_heads,
        "lsa_head_dim": config.lsa_head_dim,
        "lsa_intermediate_size": config.lsa_ffn,
    }


def check_layers(tli: int, target: LlamaConfig) -> None:
    """Raises ValueError if MoA cannot run that many of the target's layers: the server needs at least one of its
    own."""
    if tli >= target.num_hidden_layers:
        raise ValueError(
            f"MoA cannot run {tli} layers of a target of {target.num_hidden_layers}; at most {target.num_hidden_layers - 1}"
        )


class MoaKind(Kind):
    forms = ("moa-tli<N>", "moa-o-tli<N>")
    described = (
        (
            "moa-tli0, moa-tli1, ...",
            "Mixture of Attentions with N target layers on the device; loss 0.1 * KL + 1 * feature",
        ),
        ("moa-o-tli0, ...", "without LSA: its memory holds the target's features"),
    )
    default_name = "moa-tli0"
    loss_weights = (0.1, 1.0)  # as published; compared in docs/records/drafters/comparison.md
    _name = re.compile(r"moa(-o)?-tli(\d+)")

    def matches(self, name: str) -> bool:
        return self._name.fullmatch(name) is not None

    def make(self, name: str, target: Llama, limit: int) -> Optional[nn.Module]:
        t, (features, tli) = target.config, self._name.fullmatch(name).groups()
        check_layers(int(tli), t)
        # Shapes of the published configuration: an eighth of the query heads for keys and values; in the LSA, with
        # heads of 64 values, a quarter, and an MLP of 1.5 times its width. On narrow targets that MLP would take its
        # parameters from SA and CA.
        width = 2 * t.kv_width
        head_dim = 64 if width % 64 == 0 else t.head_dim
        lsa_heads = width // head_dim
        lsa_kv_heads = lsa_heads // 4 if lsa_heads % 4 == 0 else 1
        lsa_ffn = mlp_width(3 * width // 2) if width >= 1024 else 24
        for heads in head_counts(t.num_attention_heads):
            kv_heads = heads // 8 if heads % 8 == 0 else 1
            base = MoaConfig(
                heads,
                tli=int(tli),
                memory="o" if features else "lsa",
                sa_kv_heads=kv_heads,
                sa_ffn=4,
                ca_kv_heads=kv_heads,
                ca_ffn=4,
                lsa_heads=lsa_heads,
                lsa_kv_heads=lsa_kv_heads,
                lsa_head_dim=head_dim,
                lsa_ffn=lsa_ffn,
            )
            fixed = sum(p.numel() for p in Moa(t, base).parameters())
            ffn = mlp_width(4 + (limit - fixed) // (2 * 3 * t.hidden_size))
            if ffn >= 8:
                return Moa(t, dataclasses.replace(base, sa_ffn=ffn, ca_ffn=ffn))
        return None

    def restore(self, target: Llama, config: dict) -> nn.Module:
        check_layers(config["tli"], target.config)
        return Moa(
            target.config, MoaConfig(**{"heads": target.config.num_attention_heads, **config})
        )

    def reads(self, drafter: nn.Module) -> List[Tuple[str, int]]:
        layers, tli = drafter.target_config.num_hidden_layers, drafter.config.tli
        first = 0 if drafter.config.memory == "lsa" else layers - tli
        streams = [("streams", layers - tli)] if tli > 0 else []
        return streams + [
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
        out, feature = training_forward(
            drafter, target, tokens, trace, sync_positions(response, period), staircase
        )
        compared = [(feature, trace.feature)]
        if drafter.config.tli > 0:
            compared.append((out, trace.streams[-drafter.config.tli - 1]))
        return [Guess(feature, compared)]

    def draft_chain(
        self,
        drafter: nn.Module,
        target: Llama,
        trace: Trace,
        sequence: List[int],
        verified: int,
        depth: int,
    ) -> List[int]:
        state = MoaState(drafter, target)
        state.extend(trace.part(0, verified))
        path = [sequence[verified]]
        for _ in range(depth):
            path.append(int(state.draft(sequence[:verified], path).argmax()))
        return path[1:]

    def write(
        self, folder: str, drafter: nn.Module, tokenizer=None, dtype: Optional[torch.dtype] = None
    ) -> None:
        write_folder(
            folder,
            moa_config_json(drafter.target_config, drafter.config),
            drafter.state_dict(),
            tokenizer,
            dtype,
        )
