"""Targets in Hugging Face folders."""

import dataclasses
import json
import os
import re
import unittest

import torch

import distill
from checkpoint import load_target, read_safetensors, write_llama, write_safetensors
from end_ids import END_TEXTS, end_ids
from model import Llama
from folder_case import FolderCase


class HuggingFaceTest(FolderCase):
    """Saves and reloads a target through its folder."""

    def test_stored_head_overrides_tied_head(self):
        self.set_config(tie_word_embeddings=True, head_dim=None)
        loaded = load_target(self.folder)
        self.assertFalse(loaded.config.tie_word_embeddings)
        self.assertTrue(torch.equal(loaded(self.tokens).logits, self.target(self.tokens).logits))

    def test_tied_head_equals_embedding(self):
        tied = Llama(dataclasses.replace(self.target.config, tie_word_embeddings=True)).eval()
        write_llama(self.folder, tied, dtype=torch.float16)
        loaded = load_target(self.folder)
        self.assertIs(loaded.head_weight, loaded.model.embed_tokens.weight)
        self.assertTrue(
            torch.allclose(loaded(self.tokens).logits, tied(self.tokens).logits, atol=0.05)
        )

    def test_reads_rope_of_newer_configs(self):
        llama3 = {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        }
        for values, theta, scaling in (
            (
                dict(
                    rope_theta=None, rope_parameters={"rope_type": "default", "rope_theta": 500.0}
                ),
                500.0,
                None,
            ),
            (dict(rope_theta=1e6, rope_parameters={"rope_type": "default"}), 1e6, None),
            (
                dict(rope_theta=100.0, rope_parameters={"rope_theta": 5e5}, rope_scaling=llama3),
                5e5,
                llama3,
            ),
            (
                dict(
                    rope_theta=None,
                    rope_scaling=None,
                    rope_parameters={"rope_theta": 5e5, **llama3},
                ),
                5e5,
                {"rope_theta": 5e5, **llama3},
            ),
        ):
            write_llama(self.folder, self.target)
            self.set_config(**values)
            config = load_target(self.folder).config
            self.assertEqual((config.rope_theta, config.rope_scaling), (theta, scaling))

    def test_reads_sharded_qwen2(self):
        """Biases on q, k and v, and an index of weight files."""
        qwen = Llama(dataclasses.replace(self.target.config, attention_bias=True)).eval()
        write_llama(self.folder, qwen)
        self.assertTrue(
            torch.equal(load_target(self.folder)(self.tokens).logits, qwen(self.tokens).logits)
        )
        self.set_config(attention_bias=None)  # as in published ones
        whole = os.path.join(self.folder, "model.safetensors")
        tensors = sorted(read_safetensors(whole).items())
        os.remove(whole)
        for file, part in (("a.safetensors", tensors[::2]), ("b.safetensors", tensors[1::2])):
            write_safetensors(os.path.join(self.folder, file), dict(part))
        with open(whole + ".index.json", "w", encoding="utf-8") as file:
            json.dump(
                {
                    "weight_map": {
                        name: "ab"[i % 2] + ".safetensors" for i, (name, _) in enumerate(tensors)
                    }
                },
                file,
            )
        target = load_target(self.folder)
        self.assertTrue(torch.equal(target(self.tokens).logits, qwen(self.tokens).logits))
        for name in ("moa-tli1", "eagle", "medusa", "independent"):
            size = sum(
                p.numel()
                for _, p in distill.trainable(name, distill.make_drafter(name, target, 0.6))
            )
            self.assertLessEqual(size, 0.6 * target.count_parameters(), name)

    def test_rejects_unsupported_configs(self):
        for values, named in (
            ({"model_type": "mamba"}, "mamba"),
            ({"hidden_act": "gelu"}, "gelu"),
            ({"mlp_bias": True}, "mlp_bias"),
            ({"num_hidden_layers": 4}, "layers.3"),
            ({"hidden_size": None}, "hidden_size"),
            ({"rope_scaling": {"rope_type": "yarn"}}, "yarn"),
            ({"partial_rotary_factor": 0.5}, "partial_rotary_factor"),
            ({"rope_parameters": {"partial_rotary_factor": 0.5}}, "partial_rotary_factor"),
        ):
            write_llama(self.folder, self.target)
            self.set_config(**values)
            with self.assertRaises(SystemExit, msg=named) as caught:
                load_target(self.folder)
            self.assertIn(named, str(caught.exception))

    def test_names_truncated_files(self):
        path = os.path.join(self.folder, "model.safetensors")
        with open(path, "rb") as file:
            whole = file.read()
        for content in (
            b"version https://git-lfs.github.com/spec/v1",
            b"",
            whole[:500],
            whole[:-1],
        ):
            with open(path, "wb") as file:
                file.write(content)
            with self.assertRaises(SystemExit) as caught:
                load_target(self.folder)
            self.assertIn("model.safetensors", str(caught.exception))
            self.assertIn("truncated", str(caught.exception))

    def test_end_texts_equal_those_of_the_server(self):
        with open(
            os.path.join(
                os.path.dirname(__file__),
                os.pardir,
                "shared",
                "model",
                "tokenizer",
                "vocabulary.cpp",
            ),
            encoding="utf-8",
        ) as file:
            texts = re.search(r"kEndTexts\[\] = \{(.*?)\};", file.read(), re.S).group(1)
        self.assertEqual(sorted(re.findall(r'"(.*?)"', texts)), sorted(END_TEXTS))

    def test_finds_every_id_that_ends_an_answer(self):
        """The same ids as edgedraft convert and a server find in the folder."""

        def written_in_folder(name, values):
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
                json.dump(values, file)

        self.set_config(eos_token_id=None)
        with self.assertRaises(SystemExit) as caught:
            end_ids(self.folder)
        self.assertIn("eos_token_id", str(caught.exception))
        written_in_folder("generation_config.json", {"eos_token_id": [7, 2]})
        self.assertEqual(end_ids(self.folder), [2, 7])
        self.set_config(eos_token_id=5)
        self.assertEqual(end_ids(self.folder), [2, 5, 7])
        # The tokenizer's own end, from any file that defines it.
        for vocabulary in ({"a": 0, "</s>": 9}, [["a", 0.0]] * 9 + [["</s>", -1.0]]):
            written_in_folder(
                "tokenizer.json",
                {
                    "model": {"vocab": vocabulary},
                    "added_tokens": [{"id": 10, "content": "<|eom_id|>"}],
                },
            )
            for end in ("</s>", {"content": "</s>"}):
                written_in_folder("tokenizer_config.json", {"eos_token": end})
                self.assertEqual(end_ids(self.folder), [2, 5, 7, 9, 10])
        # An added token that ends an answer by its spelling.
        written_in_folder("added_tokens.json", {"<|im_start|>": 11, "<|im_end|>": 12})
        written_in_folder(
            "tokenizer_config.json",
            {"eos_token": None, "added_tokens_decoder": {"13": {"content": "<|eot_id|>"}}},
        )
        self.assertEqual(end_ids(self.folder), [2, 5, 7, 10, 12, 13])
        written_in_folder("added_tokens.json", ["<|im_end|>"])
        with self.assertRaises(SystemExit):
            end_ids(self.folder)


if __name__ == "__main__":
    unittest.main()
