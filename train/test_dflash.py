"""DFlash: blocks see the target's states before their root, and themselves."""

import json
import os
import tempfile
import unittest

import torch

import distill
from data import collate, Row
from drafter_case import DrafterCase
from drafters.dflash import Dflash, blocks_of
from model import grouped_attention, rope_table, rotate

PROMPT = 4


class DflashTest(DrafterCase):
    share = 0.9

    def setUp(self):
        super().setUp()
        self.rows = [
            Row(torch.randint(0, 50, (n,)).tolist(), [False] * PROMPT + [True] * (n - PROMPT))
            for n in (14, 9)
        ]
        self.tokens, labels = collate(self.rows)
        self.response = distill.answer_rows(labels)[0]
        self.trace = self.target(self.tokens)

    def guesses(self, drafter):
        return distill.kind_of("dflash").training_forward(
            drafter, self.target, self.tokens, self.trace, self.response, None, None
        )

    def alone(self, drafter, row, root):
        """[S - 1, E]: the masks of one block, whose context and rows are one sequence."""
        config = drafter.config
        states = torch.cat([self.trace.streams[s][row, :root] for s in config.states], -1)
        context = drafter.hidden_norm(states @ drafter.fc.weight.t())
        ids = [int(self.tokens[row, root])] + [config.mask_token] * (config.block - 1)
        x = self.target.model.embed_tokens(torch.tensor(ids))
        rope = rope_table(self.target.frequencies, torch.arange(root + config.block))
        queries = [table[root:] for table in rope]
        for layer in drafter.layers:
            attention = layer.self_attn
            normed = layer.input_layernorm(x)
            memory = torch.cat((context, normed))[None]
            k = rotate(attention.k_norm(attention.split(attention.k_proj(memory), 2)), *rope)
            v = attention.split(attention.v_proj(memory), 2)
            q = attention.q_norm(attention.split(attention.q_proj(normed[None]), 4))
            out = grouped_attention(rotate(q, *queries), k, v, None)
            x = x + attention.o_proj(out)[0]
            x = x + layer.mlp(layer.post_attention_layernorm(x))
        return drafter.norm(x[1:])

    def test_training_equals_single_blocks(self):
        for name in ("dflash", "dflash-1", "dflash-3"):
            drafter = self.make(name)
            guesses = self.guesses(drafter)
            self.assertEqual(len(guesses), drafter.config.block - 1)
            for row, conversation in enumerate(self.rows):
                for root in range(PROMPT, len(conversation.ids)):
                    expected = self.alone(drafter, row, root)
                    for k, guess in enumerate(guesses):
                        if root + k < self.tokens.shape[1]:
                            self.assertTrue(
                                torch.allclose(
                                    guess.feature[row, root + k], expected[k], atol=1e-4
                                ),
                                (name, row, root, k),
                            )

    def test_drafting_takes_the_likeliest_token_of_each_mask(self):
        drafter, sequence = self.make("dflash"), self.rows[0].ids
        expected = self.target.head(self.alone(drafter, 0, 7)).argmax(-1).tolist()
        for depth in (1, 4, 9):
            chain = distill.kind_of("dflash").draft_chain(
                drafter, self.target, self.target(self.tokens[:1]), sequence, 7, depth
            )
            self.assertEqual(chain, expected[:depth])

    def test_later_masks_weigh_less(self):
        weights = [guess.weight for guess in self.guesses(self.make("dflash"))]
        self.assertEqual(weights[0], 1)
        self.assertEqual(weights, sorted(set(weights), reverse=True))

    def test_blocks_begin_at_every_token_of_an_answer(self):
        roots = blocks_of(self.response)
        self.assertEqual(roots[0].tolist(), list(range(PROMPT, 14)))
        self.assertEqual(roots[1, : 9 - PROMPT].tolist(), list(range(PROMPT, 9)))

    def test_fills_the_limit_with_its_mlps(self):
        for share in (0.4, 0.9):
            size = sum(p.numel() for p in self.make("dflash", share).parameters())
            limit = share * self.target.count_parameters()
            self.assertLessEqual(size, limit)
            self.assertGreater(size, 0.8 * limit)
        self.assertIsNone(distill.kind_of("dflash").make("dflash", self.target, 1_000))

    def test_folder_has_the_published_layout(self):
        drafter = self.make("dflash")
        with tempfile.TemporaryDirectory() as folder:
            distill.kind_of("dflash").write(folder, drafter)
            with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
                config = json.load(file)
        self.assertEqual(config["block_size"], drafter.config.block)
        self.assertEqual(config["dflash_config"]["target_layer_ids"], [0, 2])

    def test_rejects_the_drafter_of_a_deeper_target(self):
        config = distill.drafter_record("dflash", self.make("dflash"))["config"]
        self.assertIsInstance(distill.kind_of("dflash").restore(self.target, config), Dflash)
        with self.assertRaises(ValueError) as caught:
            distill.kind_of("dflash").restore(self.target, {**config, "states": [1, 9]})
        self.assertIn("layer 9", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
