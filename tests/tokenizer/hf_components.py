#!/usr/bin/env python3
"""Writes hf_components.json beside this file: what Hugging Face's tokenizers library makes of small hand-made components
and tokenizers. Needs the Python package tokenizers 0.23.3.
"""
import json
import pathlib

import tokenizers
from tokenizers import Tokenizer

META = "\u2581"


def file(**parts):
    base = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
            "pre_tokenizer": None, "post_processor": None, "decoder": None,
            "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}}
    return {**base, **parts}


def opened(**parts):
    return Tokenizer.from_str(json.dumps(file(**parts)))


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def regex(pattern):
    return split({"Regex": pattern})


def byte_level(prefix=False, words=False):
    return {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": True, "use_regex": words}


def metaspace(scheme, splits=True, replacement=META):
    return {"type": "Metaspace", "replacement": replacement, "prepend_scheme": scheme, "split": splits}


def sequence(key, *parts):
    return {"type": "Sequence", key: list(parts)}


def pre_tokenizers():
    space = {"String": " "}
    for behavior in ["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"]:
        yield split(space, behavior), ["a b  c ", " x", "x"]
        yield split({"Regex": r"\d+"}, behavior, True), ["12ab3 45"]
    yield regex(r"x{1,2}+|\h\h"), ["xxxxx0ag"]
    yield regex(r"x{2}?y"), ["xyxxy y"]
    yield regex(r"x{,2}y|z{"), ["xxxyz{"]
    yield regex(r"(?=[A-Z])"), ["helloWorldFoo"]
    yield regex(r"\s+(?!\S)|\s+|\w+|[^\s\w]"), ["a\u180eb \u0085c\u203fd e\u0301 \u3000 x"]
    yield regex(r"[\S]+|[\s]"), ["a\u180e \u0085b"]
    yield regex(r"^.|(?m:a.b)$"), ["xy\na\nb\nzz"]
    yield regex(r"a(?i)b|c"), ["aB aC c C"]
    yield regex(r"\bx\b|\By"), ["x xy\u0301x yy x"]
    yield regex(r"[\p{Han}]+|\p{Hiragana}+|\p{^L}\P{N}"), ["\u6f22\u5b57\u304b\u306a\u3001\u30fc1a"]
    yield regex(r"[[:alpha:]]+|[[:digit:]-]+"), ["\u00e9a-1\u0663-"]
    yield regex(r"[\w\-x]+|[\]a^]|\u00e9|\x{20ac}|\x41"), ["a-x]^\u00e9\u20acA"]
    yield regex(r"(?i:'s|'LL)"), ["he'S we'lL '\u017f"]
    yield regex(r"(a)\1|(?>c+)d|(?<!e)f(?#g)"), ["aa abb ccd ef f"]
    yield regex(r"(?<n>b)\k<n>"), ["abbb"]
    yield byte_level(True, True), ["Hello  w\u00f6rld's\n", " x"]
    yield byte_level(), ["a b\u00e9"]
    for scheme in ["always", "first", "never"]:
        yield metaspace(scheme), ["Hey  you ", " a"]
        yield metaspace(scheme, False), ["Hey  you ", " a"]
    for individual in [True, False]:
        yield {"type": "Digits", "individual_digits": individual}, ["a12\u0663\u00bd b"]
    yield {"type": "Punctuation"}, ["Hi, there!? \u3001x$+"]
    yield {"type": "Punctuation", "behavior": "Contiguous"}, ["Hi, there!? \u3001x$+"]
    yield {"type": "Whitespace"}, ["Hey  friend!\u200dx --\u0301 ok\t\u0663"]
    yield {"type": "WhitespaceSplit"}, ["Hey  friend!\u3000x \u180ey"]
    yield sequence("pretokenizers", {"type": "WhitespaceSplit"}, {"type": "Punctuation", "behavior": "Isolated"},
                   {"type": "Digits", "individual_digits": True}), ["a,b 12 c!"]
    yield sequence("pretokenizers", byte_level(), split({"String": "\u0120"}, "MergedWithNext")), ["a b\u00e9 c"]
    yield sequence("pretokenizers", split(space, "Removed"), metaspace("first", True, "_")), ["a b", " a b"]


def normalizers():
    marks = "e\u0301a\u0328\u0301 \u00e9\ufb01\u2460\uac00\u1100\u1161\u11a8 \u0958\u212b a\u0315\u0300\u05ae\u0300b"
    for form in ["NFC", "NFD", "NFKC", "NFKD"]:
        yield {"type": form}, [marks, "plain ascii", "\u0301x", "\ufdfa\u1e9b\u0323", ""]
    yield {"type": "Lowercase"}, ["H\u00c9LLO \u0130 \u03a3\u03a3 \u1e9e \u01c5"]
    yield {"type": "Strip", "strip_left": True, "strip_right": False}, ["  \u3000a b \n"]
    yield {"type": "Strip", "strip_left": False, "strip_right": True}, ["  \u3000a b \n\u00a0", "   "]
    yield {"type": "Prepend", "prepend": META}, ["x", ""]
    yield {"type": "Replace", "pattern": {"String": "ab"}, "content": "$1\\0"}, ["abcab", "x"]
    yield {"type": "Replace", "pattern": {"Regex": r"\s{2,}"}, "content": " "}, ["a  b \t\n c"]
    yield {"type": "Replace", "pattern": {"Regex": "x*"}, "content": "-"}, ["axxb"]
    yield {"type": "ByteLevel"}, ["a \u00e9"]
    yield sequence("normalizers", {"type": "NFKC"}, {"type": "Lowercase"},
                   {"type": "Replace", "pattern": {"String": "\u00e9"}, "content": "E"}), ["E\u0301 \uff21"]


def llama_decoder():
    return sequence("decoders", {"type": "Replace", "pattern": {"String": META}, "content": " "},
                    {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0})


def decoders():
    yield byte_level(), [["\u0120a", "\u00c3", "\u00a9"], ["\u00c3"], ["a b", "\u00e6", "\u00f0\u0141\u013a"],
                         ["<s>\u20ac", "\u0120x"]]
    yield {"type": "ByteFallback"}, [["<0xE3>", "<0x81>", "<0x82>", "b"], ["a", "<0xE3>", "<0x81>"],
                                     ["<0xe3>", "<0x81>", "<0x82>", "<0xFF>", "x"], ["<0xG0>", "<0x41>"]]
    yield {"type": "Fuse"}, [["a", "b"], []]
    yield {"type": "Strip", "content": " ", "start": 1, "stop": 0}, [["  a ", " b"]]
    yield {"type": "Strip", "content": META, "start": 2, "stop": 1}, [[META * 3 + "a" + META * 2, "b"]]
    yield {"type": "Replace", "pattern": {"String": META}, "content": " "}, [[META + "a" + META, "b"]]
    yield metaspace("always"), [[META + "Hey" + META, META + "you"]]
    yield metaspace("never"), [[META + "Hey", META + "you"]]
    yield {"type": "BPEDecoder", "suffix": "</w>"}, [["my", "na</w>", "me</w>"]]
    yield llama_decoder(), [[META, META + "a", "<0xC3>", "<0xA9>", META + "b"]]


def bpe(tokens, merges, **settings):
    return {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": False,
            "vocab": {token: i for i, token in enumerate(tokens)}, "merges": merges, **settings}


def added(i, content, special=False, normalized=False, single_word=False, lstrip=False, rstrip=False):
    return {"id": i, "content": content, "single_word": single_word, "lstrip": lstrip, "rstrip": rstrip,
            "normalized": normalized, "special": special}


def template(*pieces):
    tokens = [piece for piece in pieces if piece != "$A"]
    return {"type": "TemplateProcessing",
            "single": [{"Sequence": {"id": "A", "type_id": 0}} if piece == "$A" else
                       {"SpecialToken": {"id": piece[0], "type_id": 0}} for piece in pieces],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 0}}],
            "special_tokens": {name: {"id": name, "ids": [i], "tokens": [name]} for name, i in tokens}}


def whole_tokenizers():
    letters = list("abcdefg") + [META]
    words = ["ab", "abc", META + "a", "de", "cde", META * 2, META + "ab"]
    merges = ["a b", "ab c", META + " a", "d e", "c de", META + " " + META, META + "a b"]
    llama = {"normalizer": sequence("normalizers", {"type": "Prepend", "prepend": META},
                                    {"type": "Replace", "pattern": {"String": " "}, "content": META}),
             "decoder": llama_decoder()}
    bytes_ = [f"<0x{i:02X}>" for i in range(256)]
    texts = ["abc abcde  ab", "a", "", " a b<s>de</s> fg", "\u00e9\u00e9a\u6f22", "abcdeabcdeabcdeabcdeabcdeabcdeabcde" * 3,
             "h\u00e9h", "<s>", "</s> <s> a", "abc" * 40 + "\u00e9" + "abc" * 40]
    for name, fallback, fuse, unk in [("byte fallback", True, True, True), ("unknown tokens", False, False, True),
                                      ("fused unknown tokens", False, True, True), ("dropped characters", False, False, False)]:
        tokens = ["<unk>", "<s>", "</s>"] + (bytes_ if fallback else []) + letters + words
        yield name, file(model=bpe(tokens, merges, unk_token="<unk>" if unk else None, fuse_unk=fuse, byte_fallback=fallback),
                         added_tokens=[added(i, tokens[i], special=True) for i in range(3)],
                         post_processor=template(("<s>", 1), "$A", ("</s>", 2)), **llama), texts
    tokens = ["<unk>", "<0xC3>", "<0xA9>", "<0x61>"] + letters + ["a<0xC3>", "<0xA9>b"]
    yield "byte tokens that merge", file(model=bpe(tokens, ["a <0xC3>", "<0xA9> b"], unk_token="<unk>", byte_fallback=True)), \
        ["a\u00e9b", "a\u00e9ba\u00e9ba\u00e9ba\u00e9ba\u00e9ba\u00e9ba\u00e9ba\u00e9b\u6f22\u00e9", "\u6f22\u00e9"]
    affixed = ["a", "b", "##a", "##b", "a</w>", "##a</w>", "##b</w>", "a##b", "ab", "ab</w>", "##ab</w>"]
    yield "affixes", file(model=bpe(affixed, ["a ##b", "##a ##b</w>"], continuing_subword_prefix="##", end_of_word_suffix="</w>"),
                          pre_tokenizer={"type": "Whitespace"}, decoder={"type": "BPEDecoder", "suffix": "</w>"}), \
        ["ab abb aab b a", "ab" * 30]
    tokens = ["a", "b", "c", "ab", "bc", "abc", "\u0120", "\u0120a"]
    for ignores in [True, False]:
        yield f"ignore_merges {ignores}", file(model=bpe(tokens, ["b c", "a b"], ignore_merges=ignores),
                                               pre_tokenizer=byte_level(False, True), decoder=byte_level()), \
            ["abc ab bc a", "abcabc" * 9, "abcx"]
    alphabet = sorted({chr(c) for c in range(33, 127)} | {chr(c) for c in range(0xa1, 0xad)} | {chr(c) for c in range(0xae, 0x144)})
    tokens = alphabet + ["ab", "\u0120a", "\u0120ab", "\u00c3\u00a9", "ab\u00c3\u00a9"]
    for ignores in [True, False]:
        yield f"bytes, ignore_merges {ignores}", \
            file(model=bpe(tokens, [["a", "b"], ["\u0120", "ab"], ["\u0120", "a"], ["\u00c3", "\u00a9"]], ignore_merges=ignores),
                 pre_tokenizer=byte_level(True, True), decoder=byte_level(),
                 added_tokens=[added(len(tokens), "<|x|>", special=True), added(len(tokens) + 1, "\n\n")]), \
            ["ab ab\u00e9 \u00e9", "ab\u00e9", "<|x|>a\n\n\nb<|x|>", "ab\u00e9" * 20, "\U0001f600 \u0000"]
    tokens = ["x", "y", "z", " ", "Y", "<a>", "<A>"]
    flags = [added(7, "<s>", special=True, rstrip=True), added(8, "<l>", lstrip=True), added(9, "yy", single_word=True),
             added(10, "<N>", normalized=True), added(11, "<s>x"), added(12, "<b>", special=True, lstrip=True, rstrip=True)]
    yield "flags of added tokens", file(model=bpe(tokens, []), added_tokens=flags, normalizer={"type": "Lowercase"}), \
        ["x <s>  y", "x  <l> y", "yy x yyx yy", "xyy yy-", "<N> <n> <A>", "<s>x <s> x", " <b> <b> ", "x <l> <l>z", "<s><l> <s> <l>",
         "\u00e9yy yy\u00e9 \u3000yy\u2003", "Y<B>"]
    marker = file(model=bpe(letters + words, merges), pre_tokenizer=metaspace("first"), decoder=metaspace("first"),
                  added_tokens=[added(15, "<s>", special=True)], post_processor=sequence("processors", byte_level(),
                                                                                         template(("<s>", 15), "$A")))
    yield "metaspace first", marker, ["ab<s>ab ab", "<s> ab", " ab"]
    yield "stripped metaspace", {**marker, "normalizer": {"type": "Strip", "strip_left": True, "strip_right": True}}, \
        [" ab ab", "ab "]
    yield "no decoder", file(model=bpe(["a", "b"], [])), ["abba"]


def run(description, texts):
    tokenizer = Tokenizer.from_str(json.dumps(description))
    for text in texts:
        tokenizer.encode_special_tokens = True
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = False
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        special = tokenizer.encode(text).ids
        yield {"text": text, "ids": ids, "ids_special": special, "ids_plain": plain,
               "decoded": tokenizer.decode(special, skip_special_tokens=False),
               "decoded_skip": tokenizer.decode(special, skip_special_tokens=True)}


def main():
    parts = {
        "tokenizers_version": tokenizers.__version__,
        "pre_tokenizers": [{"component": part, "text": text,
                            "pieces": [piece for piece, _ in opened(pre_tokenizer=part).pre_tokenizer.pre_tokenize_str(text)]}
                           for part, texts in pre_tokenizers() for text in texts],
        "normalizers": [{"component": part, "text": text, "result": opened(normalizer=part).normalizer.normalize_str(text)}
                        for part, texts in normalizers() for text in texts],
        "decoders": [{"component": part, "tokens": tokens, "text": opened(decoder=part).decoder.decode(tokens)}
                     for part, lists in decoders() for tokens in lists],
        "tokenizers": [{"name": name, "file": description, "cases": list(run(description, texts))}
                       for name, description, texts in whole_tokenizers()],
    }
    lines = []
    for key, value in parts.items():
        if isinstance(value, list):
            rows = ",\n".join(json.dumps(row) for row in value)
            lines.append(f"{json.dumps(key)}: [\n{rows}\n]")
        else:
            lines.append(f"{json.dumps(key)}: {json.dumps(value)}")
    target = pathlib.Path(__file__).with_suffix(".json")
    target.write_text("{" + ",\n".join(lines) + "}\n", encoding="ascii")


main()
