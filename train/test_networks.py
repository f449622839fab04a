"""The networks, their masks and losses."""

import dataclasses
import os
import tempfile
import unittest
import unittest.mock

import torch

import distill
from checkpoint import read_safetensors, write_safetensors
from data import Row, collate
from drafter_case import DrafterCase
from drafters import eagle, moa
from drafters.moa import Moa, MoaConfig, MoaState
from model import Cache, Llama, LlamaConfig
from traces import Traces


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
        windows = [
            row.nonzero().flatten().tolist()
            for row in moa.self_visible(self.sync, torch.tensor([True]))[0]
        ]
        self.assertEqual(windows[4:], [[4], [4, 5], [6], [7], [7, 8], [9], [10]])
        causal = moa.self_visible(self.sync, torch.tensor([False]))[0]
        self.assertEqual(causal.sum().item(), 66)


class NetworkTest(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(5)
        self.config = LlamaConfig(
            vocab_size=50,
            hidden_size=32,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
            intermediate_size=40,
        )
        self.target = Llama(self.config).requires_grad_(False)
        self.tokens = torch.randint(0, 50, (2, 13))

    def drafter(self, tli, memory="lsa"):
        return Moa(
            self.config,
            MoaConfig(heads=4, tli=tli, memory=memory, lsa_heads=4, lsa_head_dim=8, lsa_ffn=16),
        ).requires_grad_(False)

    def test_single_steps_equal_one_pass(self):
        whole = self.target(self.tokens).logits
        cache, parts = Cache(), []
        for begin, end in ((0, 5), (5, 6), (6, 13)):
            trace = self.target(self.tokens[:, begin:end], cache.past)
            cache.append(trace)
            parts.append(trace.logits)
        self.assertTrue(torch.allclose(torch.cat(parts, 1), whole, atol=1e-5))

    def test_training_equals_drafting(self):
        """One pass with the training masks gives the results of drafting step by step."""
        response = torch.tensor([[False] * 4 + [True] * 9])
        sync = moa.sync_positions(response, torch.tensor([4]))
        visible = moa.memory_visible(sync)[0]
        tokens = self.tokens[:1]
        for memory, tli in (("lsa", 0), ("lsa", 1), ("lsa", 2), ("o", 0), ("o", 1)):
            drafter = self.drafter(tli, memory)
            trace = self.target(tokens)
            logits = self.target.head(
                moa.training_forward(drafter, self.target, tokens, trace, sync)[1]
            )[0]
            for i in range(1, tokens.shape[1]):
                count = int(visible[i].sum())
                state = MoaState(drafter, self.target)
                state.extend(trace.part(0, count))
                sequence = tokens[0].tolist()
                expected = state.draft(sequence[:count], sequence[count : i + 1])
                self.assertTrue(torch.allclose(logits[i], expected, atol=1e-4), (memory, tli, i))

    def test_position_zero_has_no_memory(self):
        drafter = self.drafter(0)
        sync = torch.zeros(2, 13, dtype=torch.long)
        out, _ = moa.training_forward(
            drafter, self.target, self.tokens, self.target(self.tokens), sync
        )
        self.assertTrue(torch.isfinite(out).all())
        self.assertTrue(
            torch.allclose(
                self.target.head(out)[0, 0],
                MoaState(drafter, self.target).draft([], self.tokens[0, :1].tolist()),
                atol=1e-5,
            )
        )

    def test_target_layers_on_true_states_give_target_logits(self):
        """With the true residual stream in place of o, TLI gives the target's own logits."""
        trace = self.target(self.tokens)
        positions = torch.arange(13)
        for tli in (1, 2):
            for count in (0, 6):
                past = [
                    (k[:, :, :count], v[:, :, :count])
                    for k, v in zip(trace.keys[-tli:], trace.values[-tli:])
                ]
                rows = 13 - count
                mask = torch.cat(
                    (torch.zeros(rows, count), torch.full((rows, rows), float("-inf")).triu(1)), 1
                )
                feature = moa.run_target_layers(
                    self.target,
                    tli,
                    trace.streams[3 - tli][:, count:],
                    positions[count:],
                    past,
                    mask,
                )
                self.assertTrue(
                    torch.allclose(self.target.head(feature), trace.logits[:, count:], atol=1e-5)
                )

    def test_checkpoint_has_29_tensors(self):
        names = set(self.drafter(0).state_dict())
        parts = [
            "self_attn.q_proj",
            "self_attn.k_proj",
            "self_attn.v_proj",
            "self_attn.o_proj",
            "mlp.gate_proj",
            "mlp.up_proj",
            "mlp.down_proj",
            "input_layernorm",
            "post_attention_layernorm",
        ]
        expected = {
            f"{block}.{part}.weight"
            for block in ("self_attention", "cross_attention", "layer_self_attention")
            for part in parts
        }
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
        torch.nn.init.normal_(norm.weight)
        x = torch.randn(3, 8, dtype=torch.double, requires_grad=True)
        self.assertTrue(torch.autograd.gradcheck(lambda x, _: norm(x), (x, norm.weight)))

    def test_qwen_biases_have_published_names(self):
        model = Llama(dataclasses.replace(self.config, attention_bias=True))
        self.assertIn("model.layers.0.self_attn.q_proj.bias", model.state_dict())


class FeatureDraftersTest(DrafterCase):
    """EAGLE, HASS and MEDUSA: training sees the same inputs as drafting."""

    seed = 7
    tied = False
    spread = 0.1

    def setUp(self):
        super().setUp()
        self.tokens = torch.randint(0, 50, (1, 12))
        self.trace = self.target(self.tokens)

    def test_wide_mlps_are_whole_blocks(self):
        """Quantised types store rows in blocks of 32, and rows of an MLP's last matrix are as long as the MLP is
        wide."""
        for name in ("eagle", "moa-tli0", "independent"):
            for parameter, weight in (
                distill.kind_of(name).make(name, self.target, 310_000).named_parameters()
            ):
                self.assertTrue(
                    weight.numel() < 32_000 or weight.shape[-1] % 32 == 0,
                    f"{name}: {parameter} {tuple(weight.shape)}",
                )

    def test_narrow_drafters_have_fewer_heads(self):
        for name, limits in (
            ("eagle", {4_000: 1, 5_000: 2, 6_000: 4}),
            ("moa-tli0", {10_000: 1, 12_000: 2, 13_000: 4}),
            ("independent", {2_000: 1, 3_000: 2, 4_000: 4}),
        ):
            for limit, heads in limits.items():
                weights = dict(
                    distill.trainable(name, distill.kind_of(name).make(name, self.target, limit))
                )
                self.assertEqual(
                    [
                        weight.shape[0]
                        for key, weight in weights.items()
                        if key.endswith("q_proj.weight")
                    ][0],
                    8 * heads,
                    name,
                )
                self.assertLessEqual(
                    sum(weight.numel() for weight in weights.values()), limit, name
                )
            self.assertIsNone(distill.kind_of(name).make(name, self.target, 1_000))

    def test_checkpoints_without_head_count_use_the_targets(self):
        for name in ("eagle", "moa-tli0"):
            made = distill.kind_of(name).make(name, self.target, 20_000)
            old = {
                key: value
                for key, value in dataclasses.asdict(made.config).items()
                if key not in ("heads", "kv_heads")
            }
            self.assertEqual(distill.kind_of(name).restore(self.target, old).config, made.config)

    def test_training_pass_equals_drafting_steps(self):
        sequence = self.tokens[0].tolist()
        for name, passes in (("eagle", 1), ("hass", 3), ("hass-5", 5)):
            drafter = self.make(name)
            made = eagle.training_forward(drafter, self.target, self.tokens, self.trace)
            self.assertEqual(len(made), passes)
            for number, feature in enumerate(made, 1):
                for last in range(number, 12):
                    count = last + 1 - number
                    expected = eagle.draft(
                        drafter,
                        self.target,
                        self.trace.part(0, count),
                        sequence[:count],
                        sequence[count : last + 1],
                    )
                    self.assertTrue(
                        torch.allclose(self.target.head(feature)[0, last], expected, atol=1e-4),
                        (name, number, last),
                    )

    def test_greedy_chain_equals_single_steps(self):
        drafter, sequence = self.make("eagle"), self.tokens[0].tolist()
        path = [sequence[5]]
        for _ in range(4):
            path.append(
                int(
                    eagle.draft(
                        drafter, self.target, self.trace.part(0, 5), sequence[:5], path
                    ).argmax()
                )
            )
        self.assertEqual(
            distill.kind_of("eagle").draft_chain(drafter, self.target, self.trace, sequence, 5, 4),
            path[1:],
        )

    def test_training_noise_keeps_target_features(self):
        drafter, before = self.make("eagle"), self.trace.feature.clone()
        exact = eagle.training_forward(drafter, self.target, self.tokens, self.trace)[0]
        noisy = eagle.training_forward(drafter.train(), self.target, self.tokens, self.trace)[0]
        self.assertFalse(torch.allclose(exact, noisy, atol=1e-3))
        self.assertTrue(torch.equal(self.trace.feature, before))

    def test_checkpoints_have_published_names(self):
        layer = [
            f"layers.0.{part}.weight"
            for part in (
                "self_attn.q_proj",
                "self_attn.k_proj",
                "self_attn.v_proj",
                "self_attn.o_proj",
                "mlp.gate_proj",
                "mlp.up_proj",
                "mlp.down_proj",
                "post_attention_layernorm",
            )
        ]
        self.assertEqual(set(self.make("hass").state_dict()), {"fc.weight", *layer})
        self.assertEqual(
            set(self.make("medusa").state_dict()),
            {f"{k}.0.linear.{part}" for k in range(5) for part in ("weight", "bias")},
        )
        self.assertIn("1.1.weight", self.make("medusa-1").state_dict())

    def test_written_folder_computes_trained_logits(self):
        """The written fc includes the scale of the embeddings, which exists only in training."""
        drafter = self.make("eagle")
        drafter.config.embedding_scale = 3.0
        with tempfile.TemporaryDirectory() as folder:
            distill.kind_of("eagle").write(folder, drafter)
            plain = eagle.Eagle(
                self.target.config, dataclasses.replace(drafter.config, embedding_scale=1.0)
            ).eval()
            plain.load_state_dict(read_safetensors(os.path.join(folder, "model.safetensors")))
            made = [
                eagle.training_forward(d, self.target, self.tokens, self.trace)[0]
                for d in (drafter, plain)
            ]
        self.assertTrue(torch.allclose(*made, atol=1e-4))

    def test_top_token_term_over_all_tokens_is_cross_entropy(self):
        labels = self.tokens.roll(-1, 1)
        nothing, period = torch.tensor([False]), torch.tensor([4])
        hass = {"hass-2": self.make("hass-2")}

        def loss(*weights):
            with unittest.mock.patch.object(eagle, "TOP_K", 50):
                return distill.losses(
                    hass,
                    Traces(self.target, ()),
                    self.tokens,
                    labels,
                    period,
                    nothing,
                    {"hass-2": distill.Weights(*weights)},
                )["hass-2"][0]

        self.assertAlmostEqual(float(loss(0, 0, 1)), float(loss(1, 0, 0)), places=4)
        self.assertAlmostEqual(float(loss(0.1, 1, 0.5)), float(loss(0.6, 1, 0)), places=4)

    def test_held_out_means_do_not_depend_on_batch_size(self):
        drafter = {"hass": self.make("hass")}
        weights = {"hass": distill.Weights(1, 0, 0)}

        def told(tokens, labels):
            period, nothing = torch.full((len(tokens),), 4), torch.zeros(
                len(tokens), dtype=torch.bool
            )
            return list(
                distill.losses(
                    drafter, Traces(self.target, ()), tokens, labels, period, nothing, weights
                )["hass"][1:]
            )

        held = []
        for lengths in ((5, 12, 9, 7), (6,)):
            held.append(
                [
                    Row(torch.randint(0, 50, (n,)).tolist(), [False] * 3 + [True] * (n - 3))
                    for n in lengths
                ]
            )
        whole = [torch.tensor(told(*collate(rows))) for rows in held]
        for tokens in (1, 20, 1000):
            found = torch.tensor(distill.held_out_means(held, tokens, told))
            self.assertTrue(torch.allclose(found, (whole[0] + whole[1]) / 2, atol=1e-5), tokens)
        # A group without anything to guess does not count.
        one_id = [Row([1, 2, 3, 4], [False] * 3 + [True])]
        self.assertEqual(
            distill.held_out_means(held + [one_id], 20, told),
            distill.held_out_means(held, 20, told),
        )

    def test_untrained_medusa_heads_equal_lm_head(self):
        for name in ("medusa", "medusa-1"):
            logits = distill.make_drafter(name, self.target, 0.5).logits(
                self.target, self.trace.feature
            )
            for head in range(logits.shape[-2]):
                self.assertTrue(torch.equal(logits[..., head, :], self.trace.logits), (name, head))

    def test_medusa_training_equals_drafting(self):
        for name in ("medusa", "medusa-1"):
            drafter = self.make(name)
            guesses = distill.kind_of(name).training_forward(
                drafter, self.target, self.tokens, self.trace, None, None, None
            )
            logits = drafter.logits(self.target, self.trace.feature)[0]
            for k, guess in enumerate(guesses, 1):
                trained = (guess.head or self.target.head)(guess.feature)[0]
                self.assertTrue(
                    torch.allclose(trained[k:], logits[:-k, k - 1], atol=1e-5), (name, k)
                )
                self.assertAlmostEqual(guess.weight, 0.8**k)
            chain = distill.kind_of(name).draft_chain(
                drafter, self.target, self.trace, self.tokens[0].tolist(), 6, 4
            )
            self.assertEqual(chain, logits[5].argmax(-1)[:4].tolist())


class TracesTest(unittest.TestCase):
    NAMES = (
        "moa-tli0",
        "moa-tli1",
        "moa-tli2",
        "moa-o-tli0",
        "moa-o-tli1",
        "eagle",
        "hass-2",
        "medusa",
        "multistream-2",
        "dflash",
        "independent",
    )

    def setUp(self):
        torch.manual_seed(7)
        config = LlamaConfig(
            vocab_size=50,
            hidden_size=32,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            head_dim=8,
            intermediate_size=40,
        )
        self.target = Llama(config).requires_grad_(False)
        self.rows = [
            Row(torch.randint(0, 50, (n,)).tolist(), [False] * 3 + [True] * (n - 3))
            for n in (5, 12, 9, 7)
        ]
        self.computed = 0  # rows that the target computed
        self.target.register_forward_pre_hook(
            lambda _, arguments: setattr(self, "computed", self.computed + len(arguments[0]))
        )

    def batch(self, which, width):
        return collate([self.rows[i] for i in which], width)

    def test_cached_traces_equal_target_outputs(self):
        for name in self.NAMES:
            with self.subTest(name):
                drafters = {name: distill.make_drafter(name, self.target, 0.9).eval()}
                weights = {name: distill.Weights(1, 1, 1)}
                fields = distill.kind_of(name).reads(drafters[name])
                kept, anew = Traces(self.target, fields, 10**6), Traces(self.target, fields)
                for which, width, ran in (
                    ((0, 1), 12, 2),
                    ((1, 2), 15, 1),
                    ((2, 0, 1), 12, 0),
                    ((3, 3), 9, 2),
                ):
                    tokens, labels = self.batch(which, width)
                    given = (
                        tokens,
                        labels,
                        torch.full((len(which),), 3),
                        torch.zeros(len(which), dtype=torch.bool),
                        weights,
                    )
                    self.computed = 0
                    found = distill.losses(drafters, kept, *given)[name]
                    self.assertEqual(self.computed, ran, which)
                    for a, b in zip(found, distill.losses(drafters, anew, *given)[name]):
                        self.assertAlmostEqual(float(a), float(b), places=5)

    def test_caches_only_values_that_drafters_read(self):
        """Values per position: a feature of 32, keys and values of 2 * 16 per layer, and a stream of 32."""
        for name, numbers in (
            ("eagle", 32),
            ("moa-tli0", 32 + 3 * 32),
            ("moa-tli1", 32 + 3 * 32 + 32),
            ("moa-tli2", 32 + 3 * 32 + 32),
            ("moa-o-tli1", 32 + 32 + 32),
        ):
            traces = Traces(
                self.target,
                distill.kind_of(name).reads(distill.make_drafter(name, self.target, 0.9)),
                10**6,
            )
            traces(*self.batch((1,), 12))
            self.assertEqual(10**6 - traces.room, 12 * 4 * numbers, name)

    def test_cache_never_exceeds_its_memory(self):
        size = 4 * 32  # bytes per position's feature
        traces = Traces(self.target, (), 14 * size)
        for which in ((1,), (2,), (0,), (1,), (2,), (0,)):
            traces(*self.batch(which, 12))
        self.assertEqual(sorted(len(key) // 8 for key in traces.kept), [12])
        self.assertEqual(traces.room, 2 * size)
        self.assertEqual(self.computed, 5)  # the other two every time


if __name__ == "__main__":
    unittest.main()
