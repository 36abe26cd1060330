#!/usr/bin/env python3
"""Writes what the fuzzers start from, made of the tests' data: make_seeds.py OUTPUT_DIR

OUTPUT_DIR gets a folder per target.
"""
import json
import pathlib
import struct
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def tokenizers():
    made = json.loads((ROOT / "tests/tokenizer/hf_components.json").read_text())
    for item in made["tokenizers"]:
        yield json.dumps(item["file"]).encode()
    # One file per component, each in a tokenizer of three tokens.
    for part, key in [("pre_tokenizers", "pre_tokenizer"), ("normalizers", "normalizer"), ("decoders", "decoder")]:
        for row in made[part]:
            model = {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}
            yield json.dumps({"model": model, key: row["component"]}).encode()


def safetensors():
    for tensors in [{}, {"x": ("F32", [2], 8)}, {"x": ("BF16", [2, 1], 4), "y": ("U8", [0], 0)},
                    {"m": ("I64", [], 8), "n": ("F16", [3], 6), "o": ("BOOL", [1], 1)}]:
        header, end = {"__metadata__": {"format": "pt"}}, 0
        for name, (dtype, shape, size) in tensors.items():
            header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + size]}
            end += size
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        yield struct.pack("<Q", len(text)) + text + bytes(end)


def indices():
    for names in [{}, {"x": "a.safetensors"}, {"x": "a.safetensors", "y": "b.safetensors"}, {"y": "a.safetensors"},
                  {"x": "../a.safetensors"}, {"x": "c.safetensors"}]:
        yield json.dumps({"metadata": {"total_size": 8}, "weight_map": names}).encode()


def configs():
    for path in sorted((ROOT / "tests/fixtures/hf/models").glob("*/config*.json")):
        yield path.read_bytes()


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__.strip())
    for name, seeds in [("tokenizer_json", tokenizers()), ("safetensors", safetensors()),
                        ("safetensors_index", indices()), ("hf_config", configs())]:
        folder = pathlib.Path(sys.argv[1]) / name
        folder.mkdir(parents=True, exist_ok=True)
        for i, seed in enumerate(seeds):
            (folder / f"seed-{i}").write_bytes(seed)


main()
