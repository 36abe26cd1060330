"""PyTorch's side of compare_peers: does what one JSON line of stdin asks for, and answers with one on stdout.

{"prepare": "attention", "seq": 4096, "head_dim": 64, "query_heads": 8, "kv_heads": 2}, then {"time": "forward"} or
{"time": "backward"}; {"prepare": "step", "seq": 2048}, then {"time": "step"}. The answer holds "seconds" of one call.
"""
import json
import resource
import sys
import time

import torch
from torch.nn.functional import scaled_dot_product_attention


class Attention:
    """Causal, float32, grouped key/value heads."""

    def __init__(self, seq, head_dim, query_heads, kv_heads):
        torch.manual_seed(0)
        self.query, self.gradient = (torch.randn(1, query_heads, seq, head_dim) for _ in range(2))
        self.key, self.value = (torch.randn(1, kv_heads, seq, head_dim) for _ in range(2))

    def attend(self):
        return scaled_dot_product_attention(self.query, self.key, self.value, is_causal=True,
                                            enable_gqa=self.query.shape[1] != self.key.shape[1])

    def forward(self):
        with torch.no_grad():
            return seconds_of(self.attend)

    def backward(self):
        inputs = (self.query, self.key, self.value)
        for tensor in inputs:
            tensor.requires_grad_()
        output = self.attend()
        return seconds_of(lambda: torch.autograd.grad(output, inputs, self.gradient))


class Step:
    """The training step of `maxtext bench step` as transformers' Llama with AdamW."""

    def __init__(self, seq):
        from transformers import LlamaConfig, LlamaForCausalLM
        torch.manual_seed(0)
        self.model = LlamaForCausalLM(LlamaConfig(
            hidden_size=512, intermediate_size=1408, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=2,
            head_dim=64, vocab_size=8192, max_position_embeddings=seq, tie_word_embeddings=False, use_cache=False,
            attn_implementation="sdpa")).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-5)
        self.tokens = torch.randint(8192, (1, seq))

    def train(self):
        self.optimizer.zero_grad(set_to_none=True)
        self.model(input_ids=self.tokens, labels=self.tokens).loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()

    def step(self):
        return seconds_of(self.train)


def seconds_of(work):
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main():
    case = None
    for line in sys.stdin:
        request = json.loads(line)
        if "prepare" in request:
            kind = request.pop("prepare")
            torch.set_num_threads(request.pop("threads"))
            case = None  # its memory goes before the next one comes
            case = {"attention": Attention, "step": Step}[kind](**request)
            answer = {"torch": torch.__version__}
        else:
            answer = {"seconds": getattr(case, request["time"])()}
        answer["peak_resident_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
