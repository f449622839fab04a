#!/usr/bin/env python3
"""Writes the seed corpora of the fuzz targets, tests/fuzz/corpus.

Small valid files and messages, from which the fuzzers start. The output is deterministic. Needs flatc.
"""

from fuzz_seeds import drafters, inputs, messages, models, tokenizers

if __name__ == "__main__":
    models.make_gguf()
    drafters.make_drafter_sources()
    models.make_safetensors()
    models.make_index()
    tokenizers.make_sentencepiece()
    tokenizers.make_texts()
    tokenizers.make_tokenizer_json()
    inputs.make_templates()
    inputs.make_networks()
    inputs.make_requests()
    messages.make_messages()
