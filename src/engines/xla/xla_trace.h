// A program under construction: its text so far, its arguments, and the loop that is being traced.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engines/xla/stablehlo_writer.h"
#include "engines/xla/xla_storage.h"
#include "ops/engine.h"

namespace maxtext {

/// What runs: text and the arrays that go in and come out, in order.
struct XlaProgram {
  std::string text;
  std::vector<std::shared_ptr<const PjrtBuffer>> arguments;
  std::vector<TensorSpec> results;
};

class XlaTrace {
 public:
  /// Brings a storage's contents to the device.
  using Upload = std::function<std::shared_ptr<const PjrtBuffer>(XlaStorage&)>;
  /// `loops` counts the loops of all traces of an engine.
  XlaTrace(Upload upload, int& loops) : upload_(std::move(upload)), loops_(loops) {}

  StableHloWriter& writer() { return writer_; }

  /// What a storage holds at this point, in the shape of its spec.
  XlaValue value(XlaStorage& storage);
  /// `value`, of the storage's elements, is what it holds from here on.
  void set_value(XlaStorage& storage, const XlaValue& value);

  /// The same of `elements` from `first` on, where they can be kept as a part of their own: undefined, or false, where
  /// they cannot.
  XlaValue part(XlaStorage& storage, std::int64_t first, std::int64_t elements);
  bool set_part(XlaStorage& storage, std::int64_t first, const XlaValue& value);

  bool in_loop() const { return loop_.has_value(); }
  /// The number of the loop whose body is being traced, 0 outside of loops.
  int loop_number() const { return loop_ ? loop_->number : 0; }
  /// How often the program runs what is traced now.
  std::int64_t iterations() const;
  /// Inside a loop: int32 [], the row of a stack that `row`, as the body names it, stands for in each iteration.
  XlaValue loop_row(std::int64_t row);

  /// Traces `body(range.begin)`, which stands for all iterations, as one loop. Storages made outside that it writes to
  /// are carried from iteration to iteration; what it makes is gone after it. Loops do not nest.
  void loop(const LoopRange& range, XlaLiveStorages& live, const std::function<void(std::int64_t)>& body);

  /// The program that leaves all changed storages of `live` as its results, in their order, for `replicas` devices.
  /// Arguments that are overwritten are donated.
  XlaProgram finish(XlaLiveStorages& live, int replicas);

 private:
  struct Argument {
    TensorSpec spec;
    std::shared_ptr<const PjrtBuffer> buffer;
    std::int64_t storage = -1;
  };
  /// A storage from outside that a loop's body uses.
  struct Crossing {
    std::shared_ptr<XlaStorage> storage;  ///< also where the body is the last to use it
    XlaValue outside;
    XlaValue inside;
    bool changed_outside = false;
  };
  struct Loop {
    int number = 0;
    LoopRange range;
    XlaValue index;
    std::vector<Crossing> crossings;
    std::map<std::int64_t, std::size_t> of_storage;
  };

  XlaValue value_outside_of_loops(XlaStorage& storage);
  /// Whether nothing is known of it but parts that were written in the scope that is traced now.
  bool is_fresh(const XlaStorage& storage) const;
  /// Joins the parts, with zeros between them.
  void join_parts(XlaStorage& storage);
  void enter_loop(XlaStorage& storage);
  void close_loop(const XlaValue& condition, const std::string& condition_lines, const XlaValue& next,
                  std::string body_lines);

  Upload upload_;
  StableHloWriter writer_;
  std::vector<Argument> arguments_;
  std::optional<Loop> loop_;
  int& loops_;
  /// An exception has left a loop's body: what was traced is of no use.
  bool broken_ = false;
};

}  // namespace maxtext
