"""A small target and drafters for it, for the tests."""

import unittest

import torch

import distill
from model import Llama, LlamaConfig


class DrafterCase(unittest.TestCase):
    """Makes a random target of three layers, and drafters with random weights."""

    seed = 9
    tied = True  # the target's head is its embedding
    share = 0.5  # of the target's parameters, for drafters
    spread = 0.3  # standard deviation of what is added to a new drafter's weights

    def setUp(self):
        torch.manual_seed(self.seed)
        config = LlamaConfig(
            vocab_size=50,
            hidden_size=32,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
            intermediate_size=40,
            tie_word_embeddings=self.tied,
        )
        self.target = Llama(config).requires_grad_(False).eval()

    def make(self, name, share=None):
        share = self.share if share is None else share
        drafter = distill.make_drafter(name, self.target, share).eval().requires_grad_(False)
        for parameter in drafter.parameters():
            parameter.add_(self.spread * torch.randn_like(parameter))
        return drafter
