// The text of a program without a device to run it on.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engines/xla/xla_backend.h"
#include "engines/xla/xla_engine.h"

namespace maxtext::testing {

/// Runs nothing: results have shapes only.
class TextBackend final : public XlaBackend {
 public:
  std::shared_ptr<const PjrtBuffer> put(int, const TensorSpec& spec, std::span<const std::byte>) override {
    return std::make_shared<ShapeOnly>(spec);
  }
  std::vector<std::shared_ptr<const PjrtBuffer>> run(int, const XlaProgram& program) override {
    std::vector<std::shared_ptr<const PjrtBuffer>> results;
    for (const TensorSpec& spec : program.results) results.push_back(std::make_shared<ShapeOnly>(spec));
    return results;
  }
  bool has_data() const override { return false; }

 private:
  class ShapeOnly final : public PjrtBuffer {
   public:
    explicit ShapeOnly(const TensorSpec& spec) : spec_(spec) {}
    const TensorSpec& spec() const override { return spec_; }
    void read(std::span<std::byte>) const override {}

   private:
    TensorSpec spec_;
  };
};

/// What `program` traces on device 0 of a mesh; the tensors that it returns are the results.
inline std::string traced_text(const std::function<std::vector<Tensor>(Engine&)>& program,
                               const Mesh& mesh = Mesh({1, 1, 1, 1})) {
  XlaEngine engine(mesh, 0, std::make_shared<TextBackend>());
  const std::vector<Tensor> results = program(engine);
  engine.run();
  return engine.last_program();
}

}  // namespace maxtext::testing
