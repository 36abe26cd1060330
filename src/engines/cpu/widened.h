// Small parameters as floats, however they are stored.
#pragma once

#include <optional>

#include "engines/cpu/cpu_context.h"
#include "engines/cpu/kernels/weight_rows.h"

namespace maxtext {

/// The elements of a float32, bfloat16 or float16 tensor: in place where they are floats, else widened, by the calling
/// thread, into the workspace, which is taken until this is gone.
class Widened {
 public:
  Widened(CpuContext& context, const Tensor& tensor) {
    if (tensor.dtype() == DType::float32) {
      data_ = maxtext::data<float>(tensor);
      return;
    }
    auto* const floats =
        reinterpret_cast<float*>(lease_.emplace(context.workspace.take(workspace(tensor.spec()))).data());
    weight_rows(active_instruction_set(), tensor.dtype())
        .widen(maxtext::data<std::byte>(tensor), tensor.elements(), floats);
    data_ = floats;
  }

  const float* data() const { return data_; }

  /// Bytes of the workspace that it takes.
  static std::int64_t workspace(const TensorSpec& spec) {
    return spec.dtype == DType::float32 ? 0 : spec.elements() * static_cast<std::int64_t>(sizeof(float));
  }

 private:
  std::optional<Workspace::Lease> lease_;
  const float* data_ = nullptr;
};

}  // namespace maxtext
