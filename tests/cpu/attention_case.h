// Attention problems for tests: whole sequences in original order, their split over devices, and the textbook result.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "engines/cpu/attention_kernel.h"

namespace maxtext::testing {

/// One batch of whole sequences. q, d_o [B, S, Hq, D]; k, v [B, S, Hkv, D]; intervals [B, S].
struct AttentionProblem {
  std::int64_t batch = 1, length = 1, query_heads = 1, kv_heads = 1, head_dim = 1;
  double scale = 1;
  std::vector<double> q, k, v, d_o;
  std::vector<std::int32_t> key_begin, key_end;
  double softcap = 0;
};

struct AttentionResult {
  std::vector<double> o, logsumexp, dq, dk, dv;
};

inline AttentionProblem random_problem(std::int64_t batch, std::int64_t length, std::int64_t query_heads,
                                       std::int64_t kv_heads, std::int64_t head_dim, std::uint32_t seed) {
  AttentionProblem x{batch, length, query_heads, kv_heads, head_dim, 1 / std::sqrt(static_cast<double>(head_dim)),
                     {},    {},     {},          {},       {},       {},
                     0};
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  const auto fill = [&](std::vector<double>& values, std::int64_t heads) {
    values.resize(static_cast<std::size_t>(batch * length * heads * head_dim));
    for (double& value : values) value = static_cast<double>(normal(generator));  // exact in float too
  };
  fill(x.q, query_heads);
  fill(x.k, kv_heads);
  fill(x.v, kv_heads);
  fill(x.d_o, query_heads);
  x.key_begin.assign(static_cast<std::size_t>(batch * length), 0);
  x.key_end.assign(static_cast<std::size_t>(batch * length), 0);
  return x;
}

/// Causal within documents of the given lengths (the rest of the row is padding without keys), `window` keys at most.
inline void see_documents(AttentionProblem& x, const std::vector<std::int64_t>& documents, std::int64_t window) {
  for (std::int64_t b = 0; b < x.batch; ++b) {
    std::int64_t start = 0;
    for (const std::int64_t document : documents) {
      for (std::int64_t i = start; i < std::min(start + document, x.length); ++i) {
        const std::size_t at = static_cast<std::size_t>(b * x.length + i);
        x.key_begin[at] = static_cast<std::int32_t>(window > 0 ? std::max(start, i + 1 - window) : start);
        x.key_end[at] = static_cast<std::int32_t>(i + 1);
      }
      start += document;
    }
  }
}
inline void see_causally(AttentionProblem& x, std::int64_t window = 0) { see_documents(x, {x.length}, window); }

inline void see_randomly(AttentionProblem& x, std::uint32_t seed) {
  std::mt19937 generator(seed);
  std::uniform_int_distribution<std::int32_t> key(0, static_cast<std::int32_t>(x.length));
  for (std::size_t i = 0; i < x.key_begin.size(); ++i) {
    const auto [low, high] = std::minmax({key(generator), key(generator)});
    x.key_begin[i] = low;
    x.key_end[i] = generator() % 7 == 0 ? low : high;
  }
}

/// The definition of ops/attention.h, row by row in double.
inline AttentionResult brute_force(const AttentionProblem& x) {
  AttentionResult r;
  r.o.assign(x.q.size(), 0);
  r.dq.assign(x.q.size(), 0);
  r.dk.assign(x.k.size(), 0);
  r.dv.assign(x.k.size(), 0);
  r.logsumexp.assign(static_cast<std::size_t>(x.batch * x.query_heads * x.length), 0);
  const std::int64_t group = x.query_heads / x.kv_heads;
  const std::int64_t D = x.head_dim;
  std::vector<double> p(static_cast<std::size_t>(x.length));
  std::vector<double> slope(p.size(), 1.0);
  for (std::int64_t b = 0; b < x.batch; ++b) {
    for (std::int64_t i = 0; i < x.length; ++i) {
      const std::int32_t begin = x.key_begin[static_cast<std::size_t>(b * x.length + i)];
      const std::int32_t end = x.key_end[static_cast<std::size_t>(b * x.length + i)];
      for (std::int64_t h = 0; h < x.query_heads; ++h) {
        const std::int64_t row = ((b * x.length + i) * x.query_heads + h) * D;
        double& logsumexp = r.logsumexp[static_cast<std::size_t>((b * x.query_heads + h) * x.length + i)];
        logsumexp = -std::numeric_limits<double>::infinity();
        if (begin >= end) continue;
        const auto key = [&](std::int64_t j) { return ((b * x.length + j) * x.kv_heads + h / group) * D; };
        const auto dot = [D](const double* u, const double* w) {
          double sum = 0;
          for (std::int64_t d = 0; d < D; ++d) sum += u[d] * w[d];
          return sum;
        };
        double highest = -std::numeric_limits<double>::infinity();
        for (std::int64_t j = begin; j < end; ++j) {
          double score = x.scale * dot(&x.q[static_cast<std::size_t>(row)], &x.k[static_cast<std::size_t>(key(j))]);
          if (x.softcap > 0) {
            score = x.softcap * std::tanh(score / x.softcap);
            slope[static_cast<std::size_t>(j)] = 1 - score * score / (x.softcap * x.softcap);
          }
          p[static_cast<std::size_t>(j)] = score;
          highest = std::max(highest, p[static_cast<std::size_t>(j)]);
        }
        double sum = 0;
        for (std::int64_t j = begin; j < end; ++j) sum += std::exp(p[static_cast<std::size_t>(j)] - highest);
        logsumexp = highest + std::log(sum);
        for (std::int64_t j = begin; j < end; ++j) {
          p[static_cast<std::size_t>(j)] = std::exp(p[static_cast<std::size_t>(j)] - logsumexp);
          for (std::int64_t d = 0; d < D; ++d) {
            r.o[static_cast<std::size_t>(row + d)] +=
                p[static_cast<std::size_t>(j)] * x.v[static_cast<std::size_t>(key(j) + d)];
          }
        }
        const double delta = dot(&x.d_o[static_cast<std::size_t>(row)], &r.o[static_cast<std::size_t>(row)]);
        for (std::int64_t j = begin; j < end; ++j) {
          const double probability = p[static_cast<std::size_t>(j)];
          const double ds =
              x.scale * probability * slope[static_cast<std::size_t>(j)] *
              (dot(&x.d_o[static_cast<std::size_t>(row)], &x.v[static_cast<std::size_t>(key(j))]) - delta);
          for (std::int64_t d = 0; d < D; ++d) {
            const std::size_t at_query = static_cast<std::size_t>(row + d);
            const std::size_t at_key = static_cast<std::size_t>(key(j) + d);
            r.dv[at_key] += probability * x.d_o[at_query];
            r.dq[at_query] += ds * x.k[at_key];
            r.dk[at_key] += ds * x.q[at_query];
          }
        }
      }
    }
  }
  return r;
}

/// The tokens of each device: order[p][t] is an original token. All devices have equally many.
using TokenOrder = std::vector<std::vector<std::int32_t>>;

/// `chunks_of(i)` for i = 0, 1, …: deals `count` chunks of equal length to devices.
inline TokenOrder deal_chunks(std::int64_t length, std::int64_t devices, const std::vector<int>& owner) {
  TokenOrder order(static_cast<std::size_t>(devices));
  const std::int64_t chunk = length / static_cast<std::int64_t>(owner.size());
  for (std::int64_t token = 0; token < length; ++token) {
    order[static_cast<std::size_t>(owner[static_cast<std::size_t>(token / chunk)])].push_back(
        static_cast<std::int32_t>(token));
  }
  return order;
}

/// A token order drawn at random.
inline TokenOrder shuffled_order(std::int64_t length, std::int64_t devices, std::uint32_t seed) {
  std::vector<std::int32_t> tokens(static_cast<std::size_t>(length));
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = static_cast<std::int32_t>(i);
  std::mt19937 generator(seed);
  for (std::size_t i = tokens.size(); i > 1; --i) std::swap(tokens[i - 1], tokens[generator() % i]);
  TokenOrder order(static_cast<std::size_t>(devices));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    order[i * static_cast<std::size_t>(devices) / tokens.size()].push_back(tokens[i]);
  }
  return order;
}

inline TokenOrder one_device(std::int64_t length) { return deal_chunks(length, 1, {0}); }

template <typename T>
struct DeviceResult {
  std::vector<T> o, logsumexp, dq, dk, dv;  ///< of whole sequences, in original order
};

struct RunOptions {
  TokenOrder order;
  AttentionExecution execution;
  std::int64_t heads_per_call = 0;  ///< KV heads a call; 0: all
  bool backward = true;
};

/// Runs forward and backward on every device of the order in turn and puts the parts together; dk and dv are summed
/// over devices in double. Outputs are poisoned with NaN before every call.
template <typename T>
DeviceResult<T> run_on_devices(const AttentionProblem& x, const RunOptions& options) {
  const std::int64_t P = static_cast<std::int64_t>(options.order.size());
  const std::int64_t slots = x.length / P;
  const std::int64_t D = x.head_dim;
  const std::int64_t heads = options.heads_per_call > 0 ? options.heads_per_call : x.kv_heads;
  const T nan = std::numeric_limits<T>::quiet_NaN();
  const auto size = [](std::int64_t count) { return static_cast<std::size_t>(count); };
  std::vector<std::int32_t> gathered(size(x.batch * x.length));
  for (std::int64_t b = 0; b < x.batch; ++b) {
    for (std::int64_t p = 0; p < P; ++p) {
      for (std::int64_t t = 0; t < slots; ++t) {
        gathered[size(b * x.length + options.order[size(p)][size(t)])] = static_cast<std::int32_t>(p * slots + t);
      }
    }
  }
  DeviceResult<T> result;
  result.o.assign(x.q.size(), nan);
  result.dq.assign(x.q.size(), nan);
  result.logsumexp.assign(size(x.batch * x.query_heads * x.length), nan);
  std::vector<double> dk_sum(x.k.size(), 0);
  std::vector<double> dv_sum(x.k.size(), 0);
  Workspace workspace;
  for (std::int64_t p = 0; p < P; ++p) {
    const std::vector<std::int32_t>& mine = options.order[size(p)];
    std::vector<T> q(size(x.batch * slots * x.query_heads * D));
    std::vector<T> d_o(q.size());
    std::vector<T> o(q.size(), nan);
    std::vector<T> dq(q.size(), nan);
    std::vector<T> logsumexp(size(x.batch * x.query_heads * slots), nan);
    std::vector<std::int32_t> begin(size(x.batch * slots));
    std::vector<std::int32_t> end(begin.size());
    const std::int64_t row = x.query_heads * D;
    for (std::int64_t i = 0; i < x.batch * slots; ++i) {
      const std::int64_t token = i / slots * x.length + mine[size(i % slots)];
      begin[size(i)] = x.key_begin[size(token)];
      end[size(i)] = x.key_end[size(token)];
      for (std::int64_t d = 0; d < row; ++d) {
        q[size(i * row + d)] = static_cast<T>(x.q[size(token * row + d)]);
        d_o[size(i * row + d)] = static_cast<T>(x.d_o[size(token * row + d)]);
      }
    }
    for (std::int64_t first = 0; first < x.kv_heads; first += heads) {
      std::vector<T> k(size(x.batch * x.length * heads * D));
      std::vector<T> v(k.size());
      std::vector<T> dk(k.size(), nan);
      std::vector<T> dv(k.size(), nan);
      const auto for_keys = [&](auto&& visit) {
        for (std::int64_t b = 0; b < x.batch; ++b) {
          for (std::int64_t j = 0; j < x.length; ++j) {
            const std::int64_t slot = gathered[size(b * x.length + j)];
            const std::int64_t place = ((slot / slots * x.batch + b) * slots + slot % slots) * heads * D;
            const std::int64_t source = ((b * x.length + j) * x.kv_heads + first) * D;
            for (std::int64_t d = 0; d < heads * D; ++d) visit(size(place + d), size(source + d));
          }
        }
      };
      for_keys([&](std::size_t to, std::size_t from) {
        k[to] = static_cast<T>(x.k[from]);
        v[to] = static_cast<T>(x.v[from]);
      });
      const AttentionShape shape{x.batch, slots,      x.query_heads, D,       P,        slots,
                                 heads,   x.kv_heads, first,         x.scale, x.softcap};
      attention_forward(shape, q.data(), k.data(), v.data(), gathered.data(), begin.data(), end.data(), o.data(),
                        logsumexp.data(), workspace, options.execution);
      if (!options.backward) continue;
      attention_backward(shape, q.data(), k.data(), v.data(), gathered.data(), begin.data(), end.data(), o.data(),
                         logsumexp.data(), d_o.data(), dq.data(), dk.data(), dv.data(), workspace, options.execution);
      for_keys([&](std::size_t at, std::size_t original) {
        dk_sum[original] += static_cast<double>(dk[at]);
        dv_sum[original] += static_cast<double>(dv[at]);
      });
    }
    for (std::int64_t i = 0; i < x.batch * slots; ++i) {
      const std::int64_t token = i / slots * x.length + mine[size(i % slots)];
      for (std::int64_t d = 0; d < row; ++d) {
        result.o[size(token * row + d)] = o[size(i * row + d)];
        result.dq[size(token * row + d)] = dq[size(i * row + d)];
      }
      for (std::int64_t h = 0; h < x.query_heads; ++h) {
        result.logsumexp[size((i / slots * x.query_heads + h) * x.length + mine[size(i % slots)])] =
            logsumexp[size((i / slots * x.query_heads + h) * slots + i % slots)];
      }
    }
  }
  result.dk.assign(dk_sum.begin(), dk_sum.end());
  result.dv.assign(dv_sum.begin(), dv_sum.end());
  return result;
}

}  // namespace maxtext::testing
