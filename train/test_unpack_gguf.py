"""Targets from GGUF files."""

import io
import json
import os
import tempfile
import unittest

import torch

import unpack_gguf
from checkpoint import load_target
from generate import written
from gguf_file import write_gguf
from model import Llama, LlamaConfig
from split import SHIPPED


def gguf_file(metadata, tensors):
    """Bytes of a file with the tensors (type, shape, bytes)."""
    out = io.BytesIO()
    write_gguf(out, metadata, tensors)
    return out.getvalue()


class UnpackGgufTest(unittest.TestCase):
    """The folder of a GGUF file contains the file's model."""

    def setUp(self):
        torch.manual_seed(8)
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.path, self.folder = os.path.join(folder.name, "model.gguf"), os.path.join(
            folder.name, "hf"
        )
        self.target = Llama(
            LlamaConfig(
                vocab_size=40,
                hidden_size=32,
                num_hidden_layers=2,
                num_attention_heads=4,
                num_key_value_heads=2,
                head_dim=16,
                intermediate_size=64,
                rope_theta=500.0,
            )
        ).eval()
        pieces = (
            ["<unk>", "<s>", "</s>"]
            + [chr(97 + i) for i in range(26)]
            + ["\u2581", "ab", "ba", "aba", "\u2581a"]
        )
        pieces += [f"<unused{i}>" for i in range(40 - len(pieces))]
        self.metadata = {
            "general.architecture": "llama",
            "llama.block_count": 2,
            "llama.context_length": 99,
            "llama.embedding_length": 32,
            "llama.feed_forward_length": 64,
            "llama.attention.head_count": 4,
            "llama.attention.head_count_kv": 2,
            "llama.attention.key_length": 16,
            "llama.attention.layer_norm_rms_epsilon": 1e-5,
            "llama.rope.freq_base": 500.0,
            "tokenizer.ggml.model": "llama",
            "tokenizer.ggml.tokens": pieces,
            "tokenizer.ggml.scores": [-float(i) for i in range(40)],
            "tokenizer.ggml.token_type": [2, 3, 3] + [1] * 31 + [5] * 6,
            "tokenizer.ggml.bos_token_id": 1,
            "tokenizer.ggml.eos_token_id": 2,
            "tokenizer.ggml.unknown_token_id": 0,
            "tokenizer.ggml.add_bos_token": True,
            "tokenizer.ggml.add_space_prefix": False,
            "tokenizer.chat_template": "{{ messages[0]['content'] }}",
        }
        names = {new: old for old, new in unpack_gguf.OTHERS.items()}
        for layer in range(2):
            names.update(
                {
                    f"model.layers.{layer}.{new}.weight": f"blk.{layer}.{old}.weight"
                    for old, new in unpack_gguf.LAYER.items()
                }
            )
        self.tensors = {}
        for name, weight in self.target.state_dict().items():
            # rows i and i + D/2 of a head become neighbours
            if "q_proj" in name or "k_proj" in name:
                weight = weight.view(-1, 2, 8, 32).transpose(1, 2).reshape(-1, 32)
            self.tensors[names[name]] = (0, list(weight.shape), weight.numpy().tobytes())

    def write(self, metadata=None, tensors=None, cut=None):
        with open(self.path, "wb") as file:
            file.write(gguf_file(metadata or self.metadata, tensors or self.tensors)[:cut])

    def test_unpacked_model_computes_same_logits(self):
        self.write()
        unpack_gguf.unpack(self.path, self.folder)
        tokens = torch.randint(0, 40, (2, 9))
        self.assertTrue(
            torch.equal(load_target(self.folder)(tokens).logits, self.target(tokens).logits)
        )

    def test_decodes_blocks_of_eight_bits(self):
        numbers = torch.randint(-127, 128, (64, 32), dtype=torch.int8)
        scales = (torch.rand(64) * 0.01 + 0.001).half()
        blocks = b"".join(
            scale.numpy().tobytes() + row.numpy().tobytes() for scale, row in zip(scales, numbers)
        )
        self.write(tensors={**self.tensors, "blk.1.ffn_up.weight": (8, [64, 32], blocks)})
        unpack_gguf.unpack(self.path, self.folder)
        found = load_target(self.folder).model.layers[1].mlp.up_proj.weight
        self.assertTrue(torch.equal(found, scales.float()[:, None] * numbers))

    def test_reads_rope_scaling_of_older_files(self):
        rope = "llama.rope."
        for values, factor in (
            ({rope + "scaling.factor": 4.0}, 4.0),
            ({rope + "scale_linear": 2.0}, 2.0),
            ({rope + "scaling.type": "none", rope + "scale_linear": 2.0}, None),
            ({rope + "scaling.type": "linear", rope + "scaling.factor": 8.0}, 8.0),
            ({rope + "scale_linear": 1.0}, None),
        ):
            scaling = unpack_gguf.config_of({**self.metadata, **values}, True).rope_scaling
            self.assertEqual(scaling and scaling["factor"], factor, values)
        with self.assertRaises(ValueError):
            unpack_gguf.config_of({**self.metadata, rope + "dimension_count": 8}, True)

    def test_writes_tokenizer_and_template(self):
        try:
            import sentencepiece
        except ImportError:
            self.skipTest("SentencePiece is missing")
        self.write()
        unpack_gguf.unpack(self.path, self.folder)
        processor = sentencepiece.SentencePieceProcessor(
            model_file=os.path.join(self.folder, "tokenizer.model")
        )
        self.assertEqual(processor.encode("abac a", out_type=str), ["aba", "c", "\u2581a"])
        self.assertEqual((processor.bos_id(), processor.eos_id(), processor.pad_id()), (1, 2, -1))
        with open(os.path.join(self.folder, "tokenizer_config.json"), encoding="utf-8") as file:
            config = json.load(file)
        self.assertEqual(config["chat_template"], self.metadata["tokenizer.chat_template"])
        self.assertEqual(
            (config["bos_token"], config["eos_token"], config["add_prefix_space"]),
            ("<s>", "</s>", False),
        )

    def test_keeps_rule_for_leading_spaces(self):
        """ "legacy" in such a folder distinguishes the two rules for transformers and edgedraft convert."""
        for rule, legacy in ((None, True), ("first", False)):
            given = {
                "tokenizer.ggml.add_space_prefix": True,
                **({unpack_gguf.SPACE_RULE: rule} if rule else {}),
            }
            self.write(metadata={**self.metadata, **given})
            unpack_gguf.unpack(self.path, self.folder)
            with open(os.path.join(self.folder, "tokenizer_config.json"), encoding="utf-8") as file:
                config = json.load(file)
            self.assertEqual((config["add_prefix_space"], config["legacy"]), (True, legacy))

    def test_keeps_every_end_of_an_answer(self):
        keys = {
            "tokenizer.ggml.eos_token_id": 5,
            "tokenizer.ggml.eot_token_id": 2,
            "tokenizer.ggml.eom_token_id": 30,
        }
        for more, ids in (
            ({}, 2),
            (keys, [5, 2, 30]),
            ({**keys, "edgedraft.tokenizer.end_ids": [5, 2, 30, 35]}, [5, 2, 30, 35]),
        ):
            self.write(metadata={**self.metadata, **more})
            unpack_gguf.unpack(self.path, self.folder)
            with open(os.path.join(self.folder, "config.json"), encoding="utf-8") as file:
                self.assertEqual(json.load(file)["eos_token_id"], ids)

    def test_names_unreadable_parts(self):
        whole = len(gguf_file(self.metadata, self.tensors))
        less = dict(self.metadata)
        del less["llama.block_count"]
        part = {
            name: tensor for name, tensor in self.tensors.items() if not name.startswith("blk.1.")
        }
        for told, named in (
            (dict(cut=2), "not a GGUF"),
            (dict(cut=500), "truncated"),
            (dict(cut=whole - 100), "truncated"),
            (dict(metadata={**self.metadata, "general.architecture": "qwen2"}), "qwen2"),
            (dict(metadata=less), "block_count"),
            (dict(metadata={**self.metadata, "tokenizer.ggml.model": "gpt2"}), "gpt2"),
            (dict(metadata={**self.metadata, unpack_gguf.SPACE_RULE: "always"}), "always"),
            (dict(metadata={**self.metadata, "split.count": 2}, tensors=part), "one of 2 parts"),
            (dict(tensors=part), "the tensor blk.1.attn_norm.weight is missing"),
            (
                dict(metadata={**self.metadata, "llama.block_count": 1}),
                "has the unknown tensor blk.1.",
            ),
            (
                dict(tensors={**self.tensors, "blk.0.attn_k.bias": (0, [32], bytes(128))}),
                "blk.0.attn_k.bias",
            ),
            (
                dict(tensors={**self.tensors, "output_norm.weight": (12, [32], bytes(144))}),
                "type 12",
            ),
        ):
            self.write(**told)
            with self.assertRaises(ValueError, msg=named) as caught:
                unpack_gguf.unpack(self.path, self.folder)
            self.assertIn(named, str(caught.exception))

    def test_shipped_target_answers_correctly(self):
        try:
            from tokenizer import Tokenizer
            import sentencepiece  # noqa: F401
        except ImportError:
            self.skipTest("SentencePiece is missing")
        unpack_gguf.unpack(os.path.join(os.path.dirname(SHIPPED), "target.gguf"), self.folder)
        tokenizer, target = Tokenizer(os.path.join(self.folder, "tokenizer.model")), load_target(
            self.folder
        )
        with open(SHIPPED, encoding="utf-8") as file:
            tool = next(entry for entry in map(json.loads, file) if entry["task"] == "tool")
        answer = written(target, [tokenizer.end], [tokenizer.prompt(tool["prompt"])], 60)[0]
        self.assertEqual(tokenizer.decode(answer), tool["reference"])


if __name__ == "__main__":
    unittest.main()
