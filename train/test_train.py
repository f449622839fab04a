#!/usr/bin/env python3
"""Checks of the training code: python3 -m unittest test_train (in this folder), a few seconds."""

import argparse
import dataclasses
import gzip
import json
import os
import random
import re
import socket
import struct
import sys
import tempfile
import unittest
import unittest.mock

try:
    import torch
except ImportError:
    sys.stderr.write("SKIPPED: test_train needs PyTorch (python3-torch)\n")
    torch = None

if torch is not None:
    import calibrate
    import distill
    import evaluate
    import parallel
    import unpack_gguf
    from checkpoint import load_target, read_safetensors, write_llama, write_safetensors
    from data import Row, collate
    from distill_answers import read_answers
    from generate import written
    from model import Cache, Llama, LlamaConfig
    from drafters import eagle, moa
    from drafters.moa import Moa, MoaConfig, MoaState

import answer_prompts
import copy_prompts
import draw_prompts
import tasks
from data import Source
from split import SHIPPED, Split, normal_form


class TasksTest(unittest.TestCase):
    def test_arithmetic_is_right(self):
        rng = random.Random(1)
        for _ in range(500):
            example = tasks.arithmetic(rng)
            a, b = (int(number) for number in re.findall(r"\d+", example.prompt))
            result = int(tasks.final_answer(example.answer))
            self.assertIn(result, (a + b, abs(a - b)), example)
            digits = [step[-1] for step in example.answer.split(". Answer")[0].split(", ")]
            self.assertEqual(int("".join(reversed(digits))) % 1000, result % 10 ** len(digits), example)  # the working agrees

    def test_spoken_times(self):
        rng = random.Random(2)
        for _ in range(200):
            spoken, written = tasks.clock(rng)
            hour = int(written[:2])
            if "pm" in spoken:
                self.assertGreaterEqual(hour, 12)
            elif "am" in spoken:
                self.assertLess(hour, 12)


class SplitTest(unittest.TestCase):
    """No draw of training brings a held-out prompt, nor one that differs in case, "please" or its last mark alone."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        os.mkdir(os.path.join(self.folder.name, "tinystories"))
        # Few names and things, so that stories on either side are about the same.
        rng = random.Random(4)
        with open(os.path.join(self.folder.name, "tinystories", "made-up.txt"), "w", encoding="utf-8") as file:
            for number in range(400):
                name, thing = tasks.pick(rng, ["Lily", "Tom", "Sam"]), tasks.pick(rng, ["dragon", "boat", "cake", "drum"])
                file.write(f"Number {number} is about {name}. One fine day {name} found a {thing} and was happy. "
                           f"The {thing} was big, and {name} played with the {thing} all day.<|endoftext|>\n")

    def test_normal_form(self):
        for prompt in ("Set a timer for 5 minutes, please.", "set a timer for 5 minutes", "Please set a timer  for 5 minutes?"):
            self.assertEqual(normal_form(prompt), "set a timer for 5 minutes")
        self.assertNotEqual(normal_form("please buy milk"), normal_form("please buy eggs"))

    def test_prompts_of_the_card_are_held_out_in_all_their_forms(self):
        split = Split()
        with open(SHIPPED, encoding="utf-8") as file:
            entries = [json.loads(line) for line in file]
        self.assertEqual(len(entries), 140)
        for entry in entries:
            prompt = entry["prompt"]
            for form in (prompt, prompt.lower(), prompt.upper(), prompt.rstrip(".?") + ", please", prompt.rstrip(".?")):
                self.assertTrue(split.admits(entry["task"], form, True), form)
                self.assertFalse(split.admits(entry["task"], form, False), form)

    def test_sides_share_no_prompt(self):
        source = Source(self.folder.name)
        self.assertIn("story", source.mixture)
        rng, other = random.Random(5), random.Random(6)
        for task in source.mixture:
            training = {normal_form(source.example(task, rng).prompt) for _ in range(4000)}
            held = {normal_form(source.example(task, other, True).prompt) for _ in range(200)}
            self.assertFalse(training & held, task)

    def test_sides_share_no_story(self):
        source, rng = Source(self.folder.name), random.Random(7)
        training = {source.example("story", rng).answer for _ in range(2000)}
        held = {source.example("story", rng, True).answer for _ in range(200)}
        self.assertFalse(training & held)

    def test_own_answers_to_held_out_prompts_are_left_out(self):
        source, rng = Source(), random.Random(8)
        with open(SHIPPED, encoding="utf-8") as file:
            entries = [json.loads(line) for line in file]
        source.use_own_answers(tasks.Example("tool", entry["prompt"], "own") for entry in entries)
        self.assertNotIn("own", {source.example("tool", rng).answer for _ in range(50)})


@unittest.skipIf(torch is None, "PyTorch is missing")
class MaskTest(unittest.TestCase):
    """The worked example: prompt 0..3, answer 4..10, period 3."""

    def setUp(self):
        response = torch.tensor([[False] * 4 + [True] * 7])
        self.sync = moa.sync_positions(response, torch.tensor([3]))

    def test_sync(self):
        self.assertEqual(self.sync[0].tolist(), [0, 1, 2, 3, 3, 3, 6, 6, 6, 9, 9])

    def test_memory_lags_by_one(self):
        visible = moa.memory_visible(self.sync)[0]
        limits = [max(row.nonzero().flatten().tolist(), default=-1) for row in visible]
        self.assertEqual(limits, [-1, 0, 1, 2, 3, 3, 5, 6, 6, 8, 9])

    def test_staircase(self):
        windows = [row.nonzero().flatten().tolist() for row in moa.self_visible(self.sync, torch.tensor([True]))[0]]
        self.assertEqual(windows[4:], [[4], [4, 5], [6], [7], [7, 8], [9], [10]])
        causal = moa.self_visible(self.sync, torch.tensor([False]))[0]
        self.assertEqual(causal.sum().item(), 66)


@unittest.skipIf(torch is None, "PyTorch is missing")
class NetworkTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(5)
        self.config = LlamaConfig(vocab_size=50, hidden_size=32, num_hidden_layers=3, num_attention_heads=4,
                                  num_key_value_heads=2, head_dim=8, intermediate_size=40)
        self.target = Llama(self.config).requires_grad_(False)
        self.tokens = torch.randint(0, 50, (2, 13))

    def drafter(self, tli, memory="lsa"):
        return Moa(self.config, MoaConfig(tli=tli, memory=memory, lsa_heads=4, lsa_head_dim=8, lsa_ffn=16)).requires_grad_(False)

    def test_steps_equal_one_pass(self):
        whole = self.target(self.tokens).logits
        cache, parts = Cache(), []
        for begin, end in ((0, 5), (5, 6), (6, 13)):
            trace = self.target(self.tokens[:, begin:end], cache.past)
            cache.append(trace)
            parts.append(trace.logits)
        self.assertTrue(torch.allclose(torch.cat(parts, 1), whole, atol=1e-5))

    def test_training_equals_drafting(self):
        """One pass with the training masks gives what drafting step by step gives."""
        response = torch.tensor([[False] * 4 + [True] * 9])
        sync = moa.sync_positions(response, torch.tensor([4]))
        visible = moa.memory_visible(sync)[0]
        tokens = self.tokens[:1]
        for memory, tli in (("lsa", 0), ("lsa", 1), ("lsa", 2), ("o", 0), ("o", 1)):
            drafter = self.drafter(tli, memory)
            trace = self.target(tokens)
            logits = self.target.head(moa.training_forward(drafter, self.target, tokens, trace, sync)[1])[0]
            for i in range(1, tokens.shape[1]):
                count = int(visible[i].sum())
                state = MoaState(drafter, self.target)
                state.extend(trace.part(0, count))
                sequence = tokens[0].tolist()
                expected = state.draft(sequence[:count], sequence[count:i + 1])
                self.assertTrue(torch.allclose(logits[i], expected, atol=1e-4), (memory, tli, i))

    def test_no_memory_at_position_zero(self):
        drafter = self.drafter(0)
        sync = torch.zeros(2, 13, dtype=torch.long)
        out, _ = moa.training_forward(drafter, self.target, self.tokens, self.target(self.tokens), sync)
        self.assertTrue(torch.isfinite(out).all())
        self.assertTrue(torch.allclose(self.target.head(out)[0, 0], MoaState(drafter, self.target).draft([], self.tokens[0, :1].tolist()),
                                       atol=1e-5))

    def test_target_layers_on_true_states(self):
        """With the true residual stream in place of o, TLI gives the target's own logits."""
        trace = self.target(self.tokens)
        positions = torch.arange(13)
        for tli in (1, 2):
            for count in (0, 6):
                past = [(k[:, :, :count], v[:, :, :count]) for k, v in zip(trace.keys[-tli:], trace.values[-tli:])]
                rows = 13 - count
                mask = torch.cat((torch.zeros(rows, count), torch.full((rows, rows), float("-inf")).triu(1)), 1)
                feature = moa.run_target_layers(self.target, tli, trace.streams[3 - tli][:, count:], positions[count:], past, mask)
                self.assertTrue(torch.allclose(self.target.head(feature), trace.logits[:, count:], atol=1e-5))

    def test_checkpoint_has_29_tensors(self):
        names = set(self.drafter(0).state_dict())
        parts = ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj",
                 "mlp.down_proj", "input_layernorm", "post_attention_layernorm"]
        expected = {f"{block}.{part}.weight" for block in ("self_attention", "cross_attention", "layer_self_attention") for part in parts}
        self.assertEqual(names, expected | {"Ekv2E.weight", "Ekv2E.bias"})
        self.assertEqual(len(names), 29)

    def test_safetensors_round_trip(self):
        with tempfile.NamedTemporaryFile() as file:
            write_safetensors(file.name, self.target.state_dict())
            for name, tensor in read_safetensors(file.name).items():
                self.assertTrue(torch.equal(tensor, self.target.state_dict()[name]))

    def test_rms_norm_gradient(self):
        from model import RmsNorm
        norm = RmsNorm(8, 1e-5).double()
        x = torch.randn(3, 8, dtype=torch.double, requires_grad=True)
        self.assertTrue(torch.autograd.gradcheck(norm, (x,)))

    def test_qwen_bias_has_names(self):
        model = Llama(dataclasses.replace(self.config, attention_bias=True))
        self.assertIn("model.layers.0.self_attn.q_proj.bias", model.state_dict())


@unittest.skipIf(torch is None, "PyTorch is missing")
class FeatureDraftersTest(unittest.TestCase):
    """EAGLE, HASS and MEDUSA: training sees what drafting sees."""

    def setUp(self):
        torch.manual_seed(7)
        self.target = Llama(LlamaConfig(vocab_size=50, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
                                        head_dim=8, intermediate_size=40, tie_word_embeddings=False)).requires_grad_(False).eval()
        self.tokens = torch.randint(0, 50, (1, 12))
        self.trace = self.target(self.tokens)

    def make(self, name):
        drafter = distill.make_drafter(name, self.target, 0.5).eval().requires_grad_(False)
        for parameter in drafter.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
        return drafter

    def test_pass_of_training_equals_as_many_steps_of_drafting(self):
        sequence = self.tokens[0].tolist()
        for name, passes in (("eagle", 1), ("hass", 3), ("hass-5", 5)):
            drafter = self.make(name)
            made = eagle.training_forward(drafter, self.target, self.tokens, self.trace)
            self.assertEqual(len(made), passes)
            for number, feature in enumerate(made, 1):
                for last in range(number, 12):
                    count = last + 1 - number
                    expected = eagle.draft(drafter, self.target, self.trace.part(0, count), sequence[:count], sequence[count:last + 1])
                    self.assertTrue(torch.allclose(self.target.head(feature)[0, last], expected, atol=1e-4), (name, number, last))

    def test_greedy_chain_is_that_of_single_steps(self):
        drafter, sequence = self.make("eagle"), self.tokens[0].tolist()
        path = [sequence[5]]
        for _ in range(4):
            path.append(int(eagle.draft(drafter, self.target, self.trace.part(0, 5), sequence[:5], path).argmax()))
        self.assertEqual(distill.kind_of("eagle").draft_chain(drafter, self.target, self.trace, sequence, 5, 4), path[1:])

    def test_noise_of_training_leaves_what_is_wanted_alone(self):
        drafter, before = self.make("eagle"), self.trace.feature.clone()
        exact = eagle.training_forward(drafter, self.target, self.tokens, self.trace)[0]
        noisy = eagle.training_forward(drafter.train(), self.target, self.tokens, self.trace)[0]
        self.assertFalse(torch.allclose(exact, noisy, atol=1e-3))
        self.assertTrue(torch.equal(self.trace.feature, before))

    def test_published_names(self):
        layer = [f"layers.0.{part}.weight" for part in ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj",
                                                         "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj", "post_attention_layernorm")]
        self.assertEqual(set(self.make("hass").state_dict()), {"fc.weight", *layer})
        self.assertEqual(set(self.make("medusa").state_dict()), {f"{k}.0.linear.{part}" for k in range(5) for part in ("weight", "bias")})
        self.assertIn("1.1.weight", self.make("medusa-1").state_dict())

    def test_written_folder_computes_what_was_trained(self):
        """The scale of the embeddings, which only training knows, is in the written fc."""
        drafter = self.make("eagle")
        drafter.config.embedding_scale = 3.0
        with tempfile.TemporaryDirectory() as folder:
            distill.kind_of("eagle").write(folder, drafter)
            plain = eagle.Eagle(self.target.config, dataclasses.replace(drafter.config, embedding_scale=1.0)).eval()
            plain.load_state_dict(read_safetensors(os.path.join(folder, "model.safetensors")))
            made = [eagle.training_forward(d, self.target, self.tokens, self.trace)[0] for d in (drafter, plain)]
        self.assertTrue(torch.allclose(*made, atol=1e-4))

    def test_likeliest_tokens_term_over_all_tokens_is_cross_entropy(self):
        labels = self.tokens.roll(-1, 1)
        nothing, period = torch.tensor([False]), torch.tensor([4])
        hass = {"hass-2": self.make("hass-2")}

        def loss(*weights):
            with unittest.mock.patch.object(eagle, "TOP_K", 50):
                return distill.losses(hass, self.target, self.tokens, labels, period, nothing, {"hass-2": distill.Weights(*weights)})["hass-2"][0]

        self.assertAlmostEqual(float(loss(0, 0, 1)), float(loss(1, 0, 0)), places=4)
        self.assertAlmostEqual(float(loss(0.1, 1, 0.5)), float(loss(0.6, 1, 0)), places=4)

    def test_medusa_starts_as_the_lm_head(self):
        for name in ("medusa", "medusa-1"):
            logits = distill.make_drafter(name, self.target, 0.5).logits(self.target, self.trace.feature)
            for head in range(logits.shape[-2]):
                self.assertTrue(torch.equal(logits[..., head, :], self.trace.logits), (name, head))

    def test_medusa_heads_learn_what_they_draft(self):
        for name in ("medusa", "medusa-1"):
            drafter = self.make(name)
            guesses = distill.kind_of(name).training_forward(drafter, self.target, self.tokens, self.trace, None, None, None)
            logits = drafter.logits(self.target, self.trace.feature)[0]
            for k, guess in enumerate(guesses, 1):
                trained = (guess.head or self.target.head)(guess.feature)[0]
                self.assertTrue(torch.allclose(trained[k:], logits[:-k, k - 1], atol=1e-5), (name, k))
                self.assertAlmostEqual(guess.weight, 0.8**k)
            chain = distill.kind_of(name).draft_chain(drafter, self.target, self.trace, self.tokens[0].tolist(), 6, 4)
            self.assertEqual(chain, logits[5].argmax(-1)[:4].tolist())


@unittest.skipIf(torch is None, "PyTorch is missing")
class CalibrationTest(unittest.TestCase):
    """The tree of a MEDUSA drafter whose heads are right now and then."""

    def setUp(self):
        torch.manual_seed(9)
        self.target = Llama(LlamaConfig(vocab_size=12, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                        head_dim=8, intermediate_size=40)).requires_grad_(False).eval()
        self.drafter = distill.make_drafter("medusa", self.target, 0.9).requires_grad_(False)
        for parameter in self.drafter.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        self.rows = []
        for _ in range(8):
            ids = torch.randint(0, 12, (1, 5))
            while ids.shape[1] < 40:
                ids = torch.cat((ids, self.target(ids).logits[:, -1:].argmax(-1)), 1)
            self.rows.append(Row(ids[0].tolist(), [False] * 5 + [True] * 35))
        self.answers = [calibrate.ranks(self.drafter, self.target, row) for row in self.rows]

    def test_tree_is_the_best_of_its_size(self):
        acc = torch.rand(2, calibrate.GUESSES)
        nodes = [(i,) for i in range(10)] + [(i, j) for i in range(10) for j in range(10)]
        values = sorted((float(acc[0, node[0]] * (acc[1, node[1]] if len(node) > 1 else 1)) for node in nodes), reverse=True)
        for size in (1, 7, 40, 110):
            tree = calibrate.best_tree(acc, size)
            self.assertEqual(len(set(tree)), size)
            self.assertTrue(all(node[:-1] in tree[:i] for i, node in enumerate(tree) if len(node) > 1))
            self.assertAlmostEqual(calibrate.product_tau(acc, tree), 1 + sum(values[:size]), places=4)

    def test_predicted_tau_is_what_verification_measures(self):
        tree = calibrate.best_tree(calibrate.accuracies(self.answers), 25)
        tokens = passes = 0
        for row in self.rows:
            trace, root = self.target(torch.tensor([row.ids])), 5
            while root < len(row.ids) - 1:
                best = self.drafter.logits(self.target, trace.feature[0, root - 1]).topk(10).indices
                path, at = (), root
                while True:
                    said = int(trace.logits[0, at].argmax())  # the target's own token behind the accepted ones
                    down = [node for node in tree if node[:-1] == path and len(node) == len(path) + 1 and int(best[len(path), node[-1]]) == said]
                    if not down or at + 1 > len(row.ids) - 1:
                        break
                    path, at = down[0], at + 1
                root = at + 1
                passes += 1
            tokens += len(row.ids) - 6
        self.assertGreater(tokens / passes, 1.2)
        self.assertAlmostEqual(calibrate.walked_tau(tree, self.answers), tokens / passes, places=9)

    def test_chain_of_best_guesses_is_a_tree(self):
        tokens, passes = 0, 0
        for row in self.rows:
            gained, asked = evaluate.acceptance("medusa", self.drafter, self.target, *row.parts(), 4)
            tokens, passes = tokens + gained, passes + asked
        self.assertAlmostEqual(calibrate.walked_tau([(0,) * depth for depth in range(1, 5)], self.answers), tokens / passes, places=9)


@unittest.skipIf(torch is None, "PyTorch is missing")
class HuggingFaceTest(unittest.TestCase):
    """A target and its drafters by way of a Hugging Face folder."""

    def setUp(self):
        torch.manual_seed(6)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "target")
        self.target = Llama(LlamaConfig(vocab_size=60, hidden_size=32, num_hidden_layers=3, num_attention_heads=4, num_key_value_heads=2,
                                        head_dim=8, intermediate_size=40, tie_word_embeddings=False)).eval()
        write_llama(self.folder, self.target)
        self.tokens = torch.randint(0, 60, (2, 11))

    def set_config(self, **values):
        path = os.path.join(self.folder, "config.json")
        with open(path, encoding="utf-8") as file:
            config = {**json.load(file), **values}
        with open(path, "w", encoding="utf-8") as file:
            json.dump({key: value for key, value in config.items() if value is not None}, file)

    def test_stored_head_wins(self):
        self.set_config(tie_word_embeddings=True, head_dim=None)
        loaded = load_target(self.folder)
        self.assertFalse(loaded.config.tie_word_embeddings)
        self.assertTrue(torch.equal(loaded(self.tokens).logits, self.target(self.tokens).logits))

    def test_tied_head_is_the_embedding(self):
        tied = Llama(dataclasses.replace(self.target.config, tie_word_embeddings=True)).eval()
        write_llama(self.folder, tied, dtype=torch.float16)
        loaded = load_target(self.folder)
        self.assertIs(loaded.head_weight, loaded.model.embed_tokens.weight)
        self.assertTrue(torch.allclose(loaded(self.tokens).logits, tied(self.tokens).logits, atol=0.05))

    def test_rope_of_newer_files(self):
        self.set_config(rope_theta=None, rope_parameters={"rope_type": "default", "rope_theta": 500.0})
        self.assertEqual(load_target(self.folder).config.rope_theta, 500.0)

    def test_qwen2_in_several_files(self):
        """Biases on q, k and v, and an index of weight files."""
        qwen = Llama(dataclasses.replace(self.target.config, attention_bias=True)).eval()
        write_llama(self.folder, qwen)
        self.assertTrue(torch.equal(load_target(self.folder)(self.tokens).logits, qwen(self.tokens).logits))
        self.set_config(attention_bias=None)  # as published ones have it
        whole = os.path.join(self.folder, "model.safetensors")
        tensors = sorted(read_safetensors(whole).items())
        os.remove(whole)
        for file, part in (("a.safetensors", tensors[::2]), ("b.safetensors", tensors[1::2])):
            write_safetensors(os.path.join(self.folder, file), dict(part))
        with open(whole + ".index.json", "w", encoding="utf-8") as file:
            json.dump({"weight_map": {name: "ab"[i % 2] + ".safetensors" for i, (name, _) in enumerate(tensors)}}, file)
        target = load_target(self.folder)
        self.assertTrue(torch.equal(target(self.tokens).logits, qwen(self.tokens).logits))
        for name in ("moa-tli1", "eagle", "medusa", "independent"):
            size = sum(p.numel() for _, p in distill.trainable(name, distill.make_drafter(name, target, 0.6)))
            self.assertLessEqual(size, 0.6 * target.count_parameters(), name)

    def test_what_is_not_computed_is_refused(self):
        for values, named in (({"model_type": "mamba"}, "mamba"), ({"hidden_act": "gelu"}, "gelu"), ({"mlp_bias": True}, "mlp_bias"),
                              ({"num_hidden_layers": 4}, "layers.3"), ({"hidden_size": None}, "hidden_size"),
                              ({"rope_scaling": {"rope_type": "yarn"}}, "yarn")):
            write_llama(self.folder, self.target)
            self.set_config(**values)
            with self.assertRaises(SystemExit, msg=named) as caught:
                load_target(self.folder)
            self.assertIn(named, str(caught.exception))

    def test_answers_written_here(self):
        """A task's prompts of equal length share passes; each answer is that of its own prompt, the end included."""
        prompts = [self.tokens[0, :5].tolist(), self.tokens[1, :3].tolist(), self.tokens[1, :5].tolist(), self.tokens[0, 6:].tolist()]
        likeliest = int(self.target(torch.tensor(prompts[:1])).logits[0, -1].argmax())
        for ends in (2, [likeliest, 59]):
            self.set_config(eos_token_id=ends)
            options = argparse.Namespace(target=self.folder, device="cpu", batch=2, jobs=1, limit=9, temperature=0, seed=1)
            answers = dict(answer_prompts.written_here(options, ["chat", "chat", "chat", "code"], prompts))
            for index, prompt in enumerate(prompts):
                expected = []
                while len(expected) < 9:
                    token = int(self.target(torch.tensor([prompt + expected])).logits[0, -1].argmax())
                    expected.append(token)
                    if token in ([ends] if ends == 2 else ends):
                        break
                self.assertEqual(answers[index], expected)
        self.assertEqual(answers[0], [likeliest])

    def test_drawn_answers_follow_the_targets_law(self):
        """The first ids of many drawn answers come as often as the target says, and a seed gives them again."""
        prompt = self.tokens[0, :5].tolist()
        law = (self.target(torch.tensor([prompt])).logits[0, -1] / 0.7).softmax(-1)

        def first_ids(seed):
            options = argparse.Namespace(target=self.folder, device="cpu", batch=500, jobs=1, limit=1, temperature=0.7, seed=seed)
            return [answer[0] for _, answer in sorted(answer_prompts.written_here(options, ["chat"] * 2000, [prompt] * 2000))]

        drawn = first_ids(3)
        self.assertEqual(first_ids(3), drawn)
        self.assertNotEqual(first_ids(4), drawn)
        shares = torch.bincount(torch.tensor(drawn), minlength=60) / len(drawn)
        self.assertLess(float((shares - law).abs().max()), 5 * (0.25 / len(drawn)) ** 0.5)

    def test_drafter_of_a_folders_target(self):
        """A drafter made for it learns from answers given as ids, and its folder has the target's head."""
        path = os.path.join(self.folder, "answers.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            for _ in range(80):
                file.write(json.dumps({"task": "chat", "prompt": self.tokens[0, :5].tolist(), "answer": self.tokens[1].tolist()}) + "\n")
        training, held = read_answers(path, 600)
        self.assertEqual((len(training), len(held["chat"])), (78, 2))
        self.assertEqual(read_answers(path, 16)[0], training)
        target = load_target(self.folder).requires_grad_(False)
        drafter = distill.make_drafter("independent", target, 0.3)
        tokens, labels = collate(training[:2])
        found = distill.losses({"independent": drafter}, target, tokens, labels, torch.tensor([4, 4]), torch.tensor([False, False]),
                               {"independent": distill.Weights(1, 0.1, 0)})
        found["independent"][0].backward()
        self.assertIsNotNone(drafter.model.layers[0].mlp.up_proj.weight.grad)
        folder = os.path.join(self.folder, "drafter")
        distill.kind_of("independent").write(folder, drafter)
        self.assertTrue(torch.equal(load_target(folder).lm_head.weight, self.target.lm_head.weight))


def average_with_another(rank, found):
    """A process of LaunchedGroupTest: puts what it has after averaging with the other one into ``found``."""
    os.environ.update({"TORCHELASTIC_RUN_ID": "test", "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"})
    device, world = parallel.join("cpu")
    parameters = [torch.full((2,), 10.0 + rank), torch.full((3,), 20.0 + rank)]
    group = parallel.LaunchedGroup(parameters, 2)
    parameters[0].grad = torch.full((2,), 1.0 + 2 * rank)
    if rank == 1:
        parameters[1].grad = torch.full((3,), 4.0)
    group.numbers[rank, 0] = 100 + rank
    norms = group.average_gradients(rank, group.owned(rank), [0, 1])
    found.put((rank, device, world, [p.tolist() for p in parameters], [p.grad.tolist() for p in parameters], norms, group.numbers[:, 0].tolist()))
    group.wait()


@unittest.skipIf(torch is None, "PyTorch is missing")
class LaunchedGroupTest(unittest.TestCase):
    def test_two_processes_become_one(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        context = torch.multiprocessing.get_context("fork")
        found = context.Queue()
        with unittest.mock.patch.dict(os.environ, {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}):
            processes = [context.Process(target=average_with_another, args=(rank, found), daemon=True) for rank in (0, 1)]
            for process in processes:
                process.start()
        results = sorted(found.get(timeout=60) for _ in processes)
        for process in processes:
            process.join(60)
        for rank, result in enumerate(results):
            self.assertEqual(result[:5], (rank, "cpu", 2, [[10.0] * 2, [20.0] * 3], [[2.0] * 2, [2.0] * 3]))
            self.assertAlmostEqual(result[5][0], 8**0.5)
            self.assertAlmostEqual(result[5][1], 12**0.5)
            self.assertEqual(result[6], [100, 101])


def gguf_string(text):
    return struct.pack("<Q", len(text.encode())) + text.encode()


def gguf_value(item):
    """A value with its type before it."""
    if isinstance(item, list):
        whole = [gguf_value(element) for element in item]
        return struct.pack("<I", 9) + whole[0][:4] + struct.pack("<Q", len(item)) + b"".join(element[4:] for element in whole)
    if isinstance(item, str):
        return struct.pack("<I", 8) + gguf_string(item)
    form, kind = {bool: ("?", 7), int: ("I", 4), float: ("f", 6)}[type(item)]
    return struct.pack("<I" + form, kind, item)


def gguf_file(metadata, tensors):
    """The bytes of a file with the tensors (type, shape, bytes)."""
    table, data = b"", b""
    for name, (kind, shape, content) in tensors.items():
        table += gguf_string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), kind, len(data))
        data += content + bytes(-len(content) % 32)
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(gguf_string(key) + gguf_value(item) for key, item in metadata.items()) + table
    return head + bytes(-len(head) % 32) + data


@unittest.skipIf(torch is None, "PyTorch is missing")
class UnpackGgufTest(unittest.TestCase):
    """The folder of a GGUF file holds the model that the file was made of."""

    def setUp(self):
        torch.manual_seed(8)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path, self.folder = os.path.join(folder.name, "model.gguf"), os.path.join(folder.name, "hf")
        self.target = Llama(LlamaConfig(vocab_size=40, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
                                        head_dim=16, intermediate_size=64, rope_theta=500.0)).eval()
        pieces = ["<unk>", "<s>", "</s>"] + [chr(97 + i) for i in range(26)] + ["\u2581", "ab", "ba", "aba", "\u2581a"]
        pieces += [f"<unused{i}>" for i in range(40 - len(pieces))]
        self.metadata = {
            "general.architecture": "llama", "llama.block_count": 2, "llama.context_length": 99, "llama.embedding_length": 32,
            "llama.feed_forward_length": 64, "llama.attention.head_count": 4, "llama.attention.head_count_kv": 2,
            "llama.attention.key_length": 16, "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.rope.freq_base": 500.0,
            "tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": pieces, "tokenizer.ggml.scores": [-float(i) for i in range(40)],
            "tokenizer.ggml.token_type": [2, 3, 3] + [1] * 31 + [5] * 6, "tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2,
            "tokenizer.ggml.unknown_token_id": 0, "tokenizer.ggml.add_bos_token": True, "tokenizer.ggml.add_space_prefix": False,
            "tokenizer.chat_template": "{{ messages[0]['content'] }}"}
        names = {new: old for old, new in unpack_gguf.OTHERS.items()}
        for layer in range(2):
            names.update({f"model.layers.{layer}.{new}.weight": f"blk.{layer}.{old}.weight" for old, new in unpack_gguf.LAYER.items()})
        self.tensors = {}
        for name, weight in self.target.state_dict().items():
            if "q_proj" in name or "k_proj" in name:  # rows i and i + D/2 of a head become neighbours
                weight = weight.view(-1, 2, 8, 32).transpose(1, 2).reshape(-1, 32)
            self.tensors[names[name]] = (0, list(weight.shape), weight.numpy().tobytes())

    def write(self, metadata=None, tensors=None, cut=None):
        with open(self.path, "wb") as file:
            file.write(gguf_file(metadata or self.metadata, tensors or self.tensors)[:cut])

    def test_computes_the_same(self):
        self.write()
        unpack_gguf.unpack(self.path, self.folder)
        tokens = torch.randint(0, 40, (2, 9))
        self.assertTrue(torch.equal(load_target(self.folder)(tokens).logits, self.target(tokens).logits))

    def test_blocks_of_eight_bits(self):
        numbers = torch.randint(-127, 128, (64, 32), dtype=torch.int8)
        scales = (torch.rand(64) * 0.01 + 0.001).half()
        blocks = b"".join(scale.numpy().tobytes() + row.numpy().tobytes() for scale, row in zip(scales, numbers))
        self.write(tensors={**self.tensors, "blk.1.ffn_up.weight": (8, [64, 32], blocks)})
        unpack_gguf.unpack(self.path, self.folder)
        found = load_target(self.folder).model.layers[1].mlp.up_proj.weight
        self.assertTrue(torch.equal(found, scales.float()[:, None] * numbers))

    def test_tokenizer_and_template(self):
        try:
            import sentencepiece
        except ImportError:
            self.skipTest("SentencePiece is missing")
        self.write()
        unpack_gguf.unpack(self.path, self.folder)
        processor = sentencepiece.SentencePieceProcessor(model_file=os.path.join(self.folder, "tokenizer.model"))
        self.assertEqual(processor.encode("abac a", out_type=str), ["aba", "c", "\u2581a"])
        self.assertEqual((processor.bos_id(), processor.eos_id(), processor.pad_id()), (1, 2, -1))
        with open(os.path.join(self.folder, "tokenizer_config.json"), encoding="utf-8") as file:
            config = json.load(file)
        self.assertEqual(config["chat_template"], self.metadata["tokenizer.chat_template"])
        self.assertEqual((config["bos_token"], config["eos_token"], config["add_prefix_space"]), ("<s>", "</s>", False))

    def test_what_cannot_be_read_is_named(self):
        whole = len(gguf_file(self.metadata, self.tensors))
        less = dict(self.metadata)
        del less["llama.block_count"]
        for told, named in ((dict(cut=2), "no GGUF"), (dict(cut=500), "truncated"), (dict(cut=whole - 100), "truncated"),
                            (dict(metadata={**self.metadata, "general.architecture": "qwen2"}), "qwen2"), (dict(metadata=less), "block_count"),
                            (dict(metadata={**self.metadata, "tokenizer.ggml.model": "gpt2"}), "gpt2"),
                            (dict(tensors={**self.tensors, "blk.0.attn_k.bias": (0, [32], bytes(128))}), "blk.0.attn_k.bias"),
                            (dict(tensors={**self.tensors, "output_norm.weight": (12, [32], bytes(144))}), "type 12")):
            self.write(**told)
            with self.assertRaises(ValueError, msg=named) as caught:
                unpack_gguf.unpack(self.path, self.folder)
            self.assertIn(named, str(caught.exception))

    def test_shipped_target_answers_as_it_should(self):
        try:
            from tokenizer import Tokenizer
            import sentencepiece  # noqa: F401
        except ImportError:
            self.skipTest("SentencePiece is missing")
        unpack_gguf.unpack(os.path.join(os.path.dirname(SHIPPED), "target.gguf"), self.folder)
        tokenizer, target = Tokenizer(os.path.join(self.folder, "tokenizer.model")), load_target(self.folder)
        with open(SHIPPED, encoding="utf-8") as file:
            tool = next(entry for entry in map(json.loads, file) if entry["task"] == "tool")
        answer = written(target, [tokenizer.end], [tokenizer.prompt(tool["prompt"])], 60)[0]
        self.assertEqual(tokenizer.decode(answer), tool["reference"])


class DrawPromptsTest(unittest.TestCase):
    def test_no_prompt_twice_and_none_held_out(self):
        source = Source()
        shares = {"tool": 1.0, "units": 3.0}
        drawn = list(draw_prompts.distinct(source, random.Random(5), shares, 4000))
        self.assertEqual(len({example.prompt for example in drawn}), len(drawn))
        self.assertFalse([example.prompt for example in drawn if Split().prompt(example.task, example.prompt)])
        self.assertGreater(sum(example.task == "units" for example in drawn), 2 * sum(example.task == "tool" for example in drawn))


class CopyPromptsTest(unittest.TestCase):
    """Made-up data sets in which the two sides could meet."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        for part in ("dev", "test"):
            self.write(f"dialogsum/dialogsum.{part}.jsonl", [{"dialogue": f"#Person1#: {i}?"} for i in range(30)] + [{"dialogue": "x" * 900}])
        self.write("humaneval/HumanEval.jsonl.gz", [{"task_id": f"HumanEval/{i}", "prompt": f"def f{i}(x):\n", "canonical_solution": "    return x\n",
                                                      "entry_point": f"f{i}"} for i in range(60)])
        questions = [{"turns": [f"Question {i}", "Go on."]} for i in range(40)]
        self.write("mt_bench/question.jsonl", questions[:20])
        self.write("spec_bench/question.jsonl", questions)
        for part in ("seed_tasks", "user_oriented_instructions"):
            self.write(f"self_instruct/{part}.jsonl", [{"instruction": f"Question {i}", "instances": [{"input": ""}]} for i in range(30)])
        self.write("gsm8k/train.jsonl", [{"question": "How many?"}])
        shared = "Compose an engaging travel blog post about a recent trip to Hawaii, please."
        self.write("spec_bench/question.jsonl", questions + [{"turns": ["Hello.", "Now " + shared]}])
        self.write("wikisql/test.jsonl", [{"question": f"Which club was number {i}?"} for i in range(9)] + [{"question": shared.upper()}])

    def write(self, name, entries):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with (gzip.open if name.endswith(".gz") else open)(path, "wt", encoding="utf-8") as file:
            file.writelines(json.dumps(entry) + "\n" for entry in entries)

    def test_open_prompts_share_no_ten_words_with_a_benchmark(self):
        found = copy_prompts.apart_from_benchmarks(self.folder)
        self.assertEqual(found["question"], [f"Which club was number {i}?" for i in range(9)])
        self.assertEqual(found["summary"], [])  # the made-up dialogues are those of the test set
        self.assertEqual(set(found["instruct"]), {f"Question {i}" for i in range(30)} - {f"Question {i}" for i in range(40)})
        self.assertEqual(found["maths"], ["How many?"])

    def test_sides_share_no_item(self):
        measured, training = copy_prompts.measured(self.folder), copy_prompts.to_train_on(self.folder)
        self.assertEqual(set(measured), {"summary", "code", "chat"})
        self.assertEqual((len(measured["summary"]), len(measured["chat"])), (30, 20))
        self.assertFalse({p for prompts in measured.values() for p in prompts} & {p for prompts in training.values() for p in prompts})
        functions = [{p.split("\n\n", 1)[1] for p in side["code"]} for side in (measured, training)]
        self.assertTrue(functions[0] and functions[1])
        self.assertFalse(functions[0] & functions[1])


if __name__ == "__main__":
    unittest.main()
