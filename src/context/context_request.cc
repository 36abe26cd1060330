#include "context/context_request.h"

#include <cmath>
#include <limits>

#include "base/error.h"

namespace maxtext {
namespace {

void check_settings(const ContextPlanRequest& request) {
  if (request.sequence_length < 1) {
    fail_config("context plan: sequence length (max_target_length) is {}, it must be at least 1",
                request.sequence_length);
  }
  if (request.context_parallelism < 1) {
    fail_config("context plan: context parallelism is {}, it must be at least 1", request.context_parallelism);
  }
  if (request.stripe < 1) fail_config("context plan: a stripe has {} tokens, it must have at least 1", request.stripe);
  constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
  // 2·cp padding tokens at most.
  if (request.sequence_length > kMost - 2LL * request.context_parallelism) {
    fail_config("context plan: sequence length (max_target_length) {} over {} devices exceeds {} tokens per row",
                request.sequence_length, request.context_parallelism, kMost);
  }
  if (request.attention_types.empty()) fail_config("context plan: no attention types given, expected at least one");
  for (std::size_t i = 0; i < request.attention_types.size(); ++i) {
    const AttentionType& type = request.attention_types[i];
    if (type.window < 0) {
      fail_config("context plan: attention type {} has window {}, expected 0 (none) or more", i, type.window);
    }
    if (!std::isfinite(type.layers) || type.layers < 0) {
      fail_config("context plan: attention type {} has {} layers, expected 0 or more", i, type.layers);
    }
  }
}

void check_row(const std::vector<std::int64_t>& lengths, std::size_t row, std::int64_t sequence_length) {
  std::int64_t used = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 0) fail("context plan: row {}: document {} has length {}, expected 0 or more", row, i, lengths[i]);
    // Compared before adding, so that no length can overflow the sum.
    if (lengths[i] > sequence_length - used) {
      fail("context plan: row {}: documents 0..{} have more than the {} tokens of the row ({} + {})", row, i,
           sequence_length, used, lengths[i]);
    }
    used += lengths[i];
  }
}

}  // namespace

void check(const ContextPlanRequest& request) {
  check_settings(request);
  if (request.document_lengths.empty()) fail("context plan: no rows given, expected the document lengths of each row");
  for (std::size_t row = 0; row < request.document_lengths.size(); ++row) {
    check_row(request.document_lengths[row], row, request.sequence_length);
  }
}

std::int64_t padded_length(const ContextPlanRequest& request) {
  if (request.context_parallelism == 1) return request.sequence_length;
  const std::int64_t multiple = 2LL * request.context_parallelism;
  return (request.sequence_length + multiple - 1) / multiple * multiple;
}

}  // namespace maxtext
