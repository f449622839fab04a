"""Muon for weight matrices, AdamW for everything else, and the schedule by elapsed time.

Muon (K. Jordan, 2024) replaces a matrix gradient by a nearly orthogonal matrix with the same row and column spaces,
found by five Newton-Schulz steps. The learning rate then means the same for all layers.
"""

from __future__ import annotations

from typing import Dict, Iterable, List, Tuple

import torch
from torch import Tensor


def orthogonalise(matrices: Tensor, steps: int = 5, dtype: torch.dtype = torch.float32) -> Tensor:
    """Orthogonalises matrices [N, rows, cols]: the same singular vectors, singular values close to 1.

    The steps are computed in ``dtype``; they are approximate anyway and tolerate bfloat16.
    """
    a, b, c = 3.4445, -4.7750, 2.0315
    tall = matrices.shape[1] > matrices.shape[2]
    x = (matrices / (torch.linalg.vector_norm(matrices, dim=(1, 2), keepdim=True) + 1e-7)).to(dtype)
    for _ in range(steps):
        # Matmuls of the shorter side, and the polynomial of them that multiplies x on that side.
        gram = torch.bmm(x.transpose(1, 2), x) if tall else torch.bmm(x, x.transpose(1, 2))
        factor = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.baddbmm(x, x, factor, beta=a) if tall else torch.baddbmm(x, factor, x, beta=a)
    return x.to(matrices.dtype)


class Muon(torch.optim.Optimizer):
    """Nesterov momentum followed by :func:`orthogonalise`, with decoupled weight decay.

    Matrices of one shape are updated together: on a GPU their many small operations cost mostly launch time.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        lr: float = 0.02,
        momentum: float = 0.95,
        weight_decay: float = 0.01,
        dtype: torch.dtype = torch.float32,
    ):
        super().__init__(parameters, dict(lr=lr, momentum=momentum, weight_decay=weight_decay))
        self.dtype = dtype

    @torch.no_grad()
    def step(self) -> None:
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            if not parameters:
                continue
            gradients = [p.grad for p in parameters]
            buffers = [self._momentum(p) for p in parameters]
            torch._foreach_mul_(buffers, group["momentum"])
            torch._foreach_add_(buffers, gradients)
            directions = torch._foreach_add(gradients, buffers, alpha=group["momentum"])
            torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
            by_shape: Dict[torch.Size, List[Tuple[Tensor, Tensor]]] = {}
            for p, direction in zip(parameters, directions):
                by_shape.setdefault(p.shape, []).append((p, direction))
            for (rows, cols), pairs in by_shape.items():
                alike, wanted = zip(*pairs)
                updates = orthogonalise(torch.stack(wanted), dtype=self.dtype).unbind()
                torch._foreach_add_(
                    alike, updates, alpha=-group["lr"] * max(1.0, rows / cols) ** 0.5
                )

    def _momentum(self, p: Tensor) -> Tensor:
        state = self.state[p]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(p)
        return state["momentum"]


def is_residual_output(name: str) -> bool:
    """True for the matrices that write to the residual stream."""
    return name.endswith(("o_proj.weight", "down_proj.weight"))


class Optimiser:
    """Muon for the 2-D weights except the embedding, AdamW for the rest; one schedule for both.

    Muon makes all matrices grow at the same rate, and soon the first layer's output drowns the embedding. Layers can
    then no longer identify their token, so copying from the prompt is not learned.  Matrices that write to the
    residual stream therefore use the smaller rate muon_lr * residual.
    """

    def __init__(
        self,
        named: List[Tuple[str, Tensor]],
        muon_lr: float,
        adam_lr: float,
        embedding_lr: float,
        residual: float = 1.0,
        bf16: bool = False,
    ):
        # An orthogonal update of one factor does not control the size of a product, so adapters use AdamW.
        def is_matrix(name: str, p: Tensor) -> bool:
            return p.dim() == 2 and "embed_tokens" not in name and not name.startswith("adapter")

        outputs = [p for name, p in named if is_matrix(name, p) and is_residual_output(name)]
        matrices = [p for name, p in named if is_matrix(name, p) and not is_residual_output(name)]
        embeddings = [p for name, p in named if "embed_tokens" in name]
        others = [p for name, p in named if not is_matrix(name, p) and "embed_tokens" not in name]
        dtype = torch.bfloat16 if bf16 else torch.float32
        self.parts = []
        if matrices:
            self.parts.append((Muon(matrices, lr=muon_lr, dtype=dtype), muon_lr))
        if outputs:
            self.parts.append((Muon(outputs, lr=muon_lr, dtype=dtype), muon_lr * residual))
        if embeddings:
            self.parts.append(
                (
                    torch.optim.AdamW(
                        embeddings, lr=embedding_lr, betas=(0.9, 0.95), weight_decay=0.0
                    ),
                    embedding_lr,
                )
            )
        if others:
            self.parts.append(
                (
                    torch.optim.AdamW(others, lr=adam_lr, betas=(0.9, 0.95), weight_decay=0.0),
                    adam_lr,
                )
            )

    def step(self, factor: float) -> None:
        for part, lr in self.parts:
            for group in part.param_groups:
                group["lr"] = lr * factor
            part.step()

    def state_dict(self) -> list:
        return [part.state_dict() for part, _ in self.parts]

    def load_state_dict(self, states: list) -> None:
        if len(states) != len(self.parts):
            raise ValueError(f"expected {len(self.parts)} groups of weights, found {len(states)}")
        for (part, _), state in zip(self.parts, states):
            part.load_state_dict(state)


def schedule(step: int, progress: float, warmup: int, decay: float) -> float:
    """Learning-rate factor: linear over ``warmup`` steps, 1, then linear to 0 over the last ``decay`` of the run.

    ``progress`` runs from 0 to 1 and may be a share of time or of steps.
    """
    return min(1.0, (step + 1) / max(1, warmup)) * min(1.0, max(0.0, (1.0 - progress) / decay))
