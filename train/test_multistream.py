"""Speculative Streaming: training equals the streams of single positions."""

import math
import unittest

import torch

import distill
from drafter_case import DrafterCase
from model import causal_mask


class MultistreamTest(DrafterCase):
    """Speculative Streaming: streams of a position see what the target knew there, and each other."""

    def setUp(self):
        super().setUp()
        self.tokens = torch.randint(0, 50, (1, 12))
        self.trace = self.target(self.tokens)

    def alone(self, drafter, position):
        """[G, E]: the streams of one position, a row after the other, by the paper's equations."""
        count, first = drafter.config.streams, drafter.first_layer
        x = self.trace.streams[first][:, position : position + 1].repeat(1, count, 1)
        if not drafter.config.rotated:
            x = x + torch.stack(list(drafter.embeddings))
        angle = math.pi / 2 / (1024 + count) if drafter.config.rotated else 0.0
        rope = self.target.rope(position + 1 + torch.arange(count))
        for i, layer in enumerate(self.target.model.layers[first:]):
            normed = layer.input_layernorm(x)
            k, v = layer.self_attn.keys_values(normed, rope)
            past = [
                known[first + i][:, :, : position + 1]
                for known in (self.trace.keys, self.trace.values)
            ]
            mask = causal_mask(count, position + 1 + count)
            k, v = torch.cat((past[0], k), 2), torch.cat((past[1], v), 2)
            read = [
                layer.self_attn.attend(normed, rope, k, self.turned(v, j * angle), mask)[:, j - 1]
                for j in range(1, count + 1)
            ]
            x = x + torch.stack(read, 1)
            adapter = drafter.adapters[i]
            low = layer.post_attention_layernorm(x) @ adapter.down.weight.t()
            x = x + low @ adapter.up.weight.t()
        return self.target.model.norm(x)[0]

    @staticmethod
    def turned(values, angle):
        """values [..., D] as D / 2 complex numbers, rotated."""
        real, imaginary = values.chunk(2, -1)
        turned = torch.complex(real, imaginary) * complex(math.cos(angle), math.sin(angle))
        return torch.cat((turned.real, turned.imag), -1)

    def test_training_equals_streams_of_single_positions(self):
        for name, count in (
            ("multistream", 4),
            ("multistream-1-r2", 4),
            ("multistream-2-g2", 2),
            ("multistream-2-rotated", 4),
        ):
            drafter = self.make(name)
            guesses = distill.kind_of(name).training_forward(
                drafter, self.target, self.tokens, self.trace, None, None, None
            )
            self.assertEqual(len(guesses), count)
            for position in range(8):
                expected = self.alone(drafter, position)
                for j, guess in enumerate(guesses, 1):
                    self.assertTrue(
                        torch.allclose(guess.feature[0, position + j], expected[j - 1], atol=1e-4),
                        (name, position, j),
                    )
            chain = distill.kind_of(name).draft_chain(
                drafter, self.target, self.trace, self.tokens[0].tolist(), 6, 3
            )
            expected = self.target.head(self.alone(drafter, 5)).argmax(-1)
            self.assertEqual(chain, expected[:3].tolist())

    def test_published_number_of_parameters(self):
        """4 embeddings, and adapters of rank 8 in the last four layers or as many as there are."""
        size = sum(p.numel() for p in self.make("multistream").parameters())
        self.assertEqual(size, 32 * (4 + 2 * 3 * 8))
        size = sum(p.numel() for p in self.make("multistream-2-g6-rotated").parameters())
        self.assertEqual(size, 32 * 2 * 2 * 8)
        self.assertIsNone(distill.kind_of("multistream").make("multistream", self.target, 1_000))

    def test_rejects_layers_that_the_target_lacks(self):
        for name in ("multistream-4", "multistream-0"):
            with self.assertRaises(SystemExit) as caught:
                distill.make_drafter(name, self.target, 0.5)
            self.assertIn("1 to 3", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
