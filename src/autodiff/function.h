// A differentiable step of a program: a primitive op with its vjp, or a composite (an attention strategy) whose
// forward and vjp are written by hand over raw ops.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ops/engine.h"

namespace maxtext {

class Pullback;

/// Which inputs and outputs of a function its pullback reads: bit i for input (output) i. What no pullback reads is
/// not kept by the forward pass.
struct PullbackNeeds {
  std::uint32_t inputs = 0;
  std::uint32_t outputs = 0;
};

class Function {
 public:
  virtual ~Function() = default;

  virtual std::string_view name() const = 0;
  virtual std::vector<TensorSpec> infer(InputSpecs inputs) const = 0;
  /// May let go of inputs before it returns: where nothing else reads them, that frees their memory.
  virtual std::vector<Tensor> forward(Engine& engine, std::vector<Tensor> inputs) const = 0;
  virtual PullbackNeeds needs() const = 0;
  /// Applies the vjp: reads cotangents of outputs, adds to cotangents of inputs. Throws Error for a function without
  /// a derivative.
  virtual void pullback(Pullback& context) const = 0;
  /// True for elementwise work, which is recomputed in backward under every policy: all of it together is about 1.5%
  /// of a training step, while its outputs are about 40% of the activations.
  virtual bool cheap() const { return false; }
  /// True for a collective whose result is on its way when forward returns: backward starts it ahead of its use.
  virtual bool asynchronous() const { return false; }
};

/// The Function of a primitive op.
std::shared_ptr<const Function> primitive(Op op);

}  // namespace maxtext
