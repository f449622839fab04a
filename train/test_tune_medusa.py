"""A target tuned together with its heads."""

import contextlib
import io
import json
import os
import tempfile
import unittest
from typing import Tuple

import torch

import distill
import loop
import tune_medusa
from checkpoint import amend_config, load_target, read_safetensors, write_llama
from data import IGNORE
from drafters import kind_of
from generate import written
from model import Llama, LlamaConfig


class TuneMedusaTest(unittest.TestCase):
    """A target tuned together with its heads."""

    def setUp(self):
        torch.manual_seed(11)
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.source = os.path.join(self.folder.name, "source")
        config = LlamaConfig(
            vocab_size=60,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
            intermediate_size=40,
        )
        write_llama(self.source, Llama(config))
        with open(os.path.join(self.source, "tokenizer_config.json"), "w") as file:
            file.write("{}")
        self.target = load_target(self.source).requires_grad_(False)
        self.plain = load_target(self.source)
        self.adapters = tune_medusa.adapt(self.target, 4, 8.0)
        self.kind = kind_of("medusa")
        self.heads = distill.make_drafter("medusa", self.target, 1.0)
        self.tokens = torch.randint(0, 60, (3, 12))
        self.labels = torch.full((3, 12), IGNORE)
        self.labels[:, 3:11] = self.tokens[:, 4:]

    def learn(self, steps: int) -> None:
        parameters = [p for adapter in self.adapters for p in (adapter.down, adapter.up)] + list(
            self.heads.parameters()
        )
        optimiser = torch.optim.Adam(parameters, lr=0.01)
        for _ in range(steps):
            optimiser.zero_grad()
            own, ahead, _ = tune_medusa.losses(
                self.target, self.adapters, self.kind, self.heads, self.tokens, self.labels, True
            )
            (own + 0.2 * ahead).backward()
            optimiser.step()

    def test_untrained_adapters_change_nothing(self):
        self.assertTrue(
            torch.equal(self.target(self.tokens).logits, self.plain(self.tokens).logits)
        )
        own, _, equal = tune_medusa.losses(
            self.target, self.adapters, self.kind, self.heads, self.tokens, self.labels, True
        )
        self.assertAlmostEqual(float(own), 0.0, places=6)
        self.assertEqual(equal[0], 1.0)

    def test_target_and_heads_learn_while_teacher_is_fixed(self):
        for name in ("medusa", "multistream"):
            with self.subTest(name):
                self.setUp()
                self.kind = kind_of(name)
                self.heads = distill.make_drafter(name, self.target, 1.0)
                before = tune_medusa.losses(
                    self.target,
                    self.adapters,
                    self.kind,
                    self.heads,
                    self.tokens,
                    self.labels,
                    True,
                )
                self.learn(60)
                own, ahead, _ = tune_medusa.losses(
                    self.target,
                    self.adapters,
                    self.kind,
                    self.heads,
                    self.tokens,
                    self.labels,
                    True,
                )
                self.assertLess(float(ahead), 0.5 * float(before[1]))
                self.assertGreater(float(own), 0.0, "no loss of the target")
                with tune_medusa.as_teacher(self.adapters):
                    self.assertTrue(
                        torch.equal(self.target(self.tokens).logits, self.plain(self.tokens).logits)
                    )

    def test_streams_leave_the_target_alone_at_first(self):
        heads = distill.make_drafter("multistream", self.target, 1.0)
        _, ahead, _ = tune_medusa.losses(
            self.target,
            self.adapters,
            kind_of("multistream"),
            heads,
            self.tokens,
            self.labels,
            False,
        )
        ahead.backward()
        self.assertTrue(all(adapter.up.grad is None for adapter in self.adapters))
        self.assertGreater(max(float(p.grad.abs().max()) for p in heads.parameters()), 0.0)

    def test_written_target_computes_tuned_logits(self):
        self.learn(5)
        tuned = self.target(self.tokens).logits.detach()
        self.assertGreater(float((tuned - self.plain(self.tokens).logits).abs().max()), 1e-3)
        out = os.path.join(self.folder.name, "out")
        tune_medusa.write(
            out, self.source, self.target, "medusa", self.heads, loop.Clock(5, 60.0, 1000)
        )
        loaded = load_target(os.path.join(out, "target"))
        self.assertLess(float((loaded(self.tokens).logits - tuned).abs().max()), 1e-4)
        self.assertTrue(os.path.exists(os.path.join(out, "target", "tokenizer_config.json")))
        self.assertEqual(
            len(read_safetensors(os.path.join(out, "medusa", "model.safetensors"))),
            2 * len(self.heads),
        )

    def test_keeps_tree_only_for_its_own_heads(self):
        """Rewriting a folder keeps calibrate.py's tree; for other heads it is removed with a notice."""
        out = os.path.join(self.folder.name, "out")
        folder = os.path.join(out, "medusa")

        def written() -> Tuple[dict, str]:
            target, said = load_target(self.source).requires_grad_(False), io.StringIO()
            tune_medusa.adapt(target, 4, 8.0)
            with contextlib.redirect_stdout(said):
                tune_medusa.write(
                    out, self.source, target, "medusa", self.heads, loop.Clock(5, 60.0, 1000)
                )
            with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
                return json.load(file), said.getvalue()

        self.assertNotIn("calibrated", written()[1])
        tree = {"medusa_choices": [[0], [0, 0]], "medusa_predicted_tau": 1.5}
        amend_config(folder, **tree)
        config, said = written()
        self.assertEqual(config, {**config, **tree})
        self.assertNotIn("calibrated", said)
        self.learn(1)
        config, said = written()
        self.assertNotIn("medusa_choices", config)
        self.assertIn(f"{folder} gets other heads; run calibrate.py again for its tree", said)

    def test_trains_heads_alone_first(self):
        self.assertEqual(tune_medusa.weight_of_heads(0.1, 0.2), 1.0)
        self.assertAlmostEqual(tune_medusa.weight_of_heads(tune_medusa.HEADS_FIRST, 0.2), 0.0)
        self.assertAlmostEqual(tune_medusa.weight_of_heads(1.0, 0.2), 0.2)


if __name__ == "__main__":
    unittest.main()
