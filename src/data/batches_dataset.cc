#include "data/batches_dataset.h"

#include <algorithm>
#include <cstring>

#include "base/content_hash.h"
#include "base/error.h"
#include "context/context_plan.h"
#include "data/sampled_hash.h"

namespace maxtext {
namespace {

constexpr const char* kTensors[] = {"inputs", "targets", "inputs_position", "inputs_segmentation",
                                    "targets_segmentation"};

void check_form(const SafetensorsFile& file, std::int64_t sequence_length) {
  const TensorSpec& inputs = file.at("inputs").spec;
  for (const char* name : kTensors) {
    const TensorSpec& spec = file.at(name).spec;
    if (spec.dtype != DType::int32 || spec.shape.size() != 3 || spec.shape != inputs.shape) {
      fail("{}: tensor {}: expected int32 [steps, rows, tokens], the same for all, found {}", file.path().string(),
           name, to_string(spec));
    }
  }
  if (inputs.shape[2] != sequence_length) {
    fail_config("max_target_length={}: the rows of {} have {} tokens", sequence_length, file.path().string(),
                inputs.shape[2]);
  }
}

std::vector<std::int32_t> tensor_row(const SafetensorsFile& file, const char* name, std::int64_t row,
                                     std::int64_t length) {
  std::vector<std::int32_t> values(static_cast<std::size_t>(length));
  std::memcpy(values.data(), file.at(name).bytes.data() + row * length * 4, values.size() * 4);
  return values;
}

}  // namespace

BatchesDataset::BatchesDataset(const std::vector<std::filesystem::path>& files, const Options& options)
    : options_(options) {
  for (const auto& path : files) {
    File file{SafetensorsFile(path), rows_};
    check_form(file.tensors, options.sequence_length);
    const Shape& shape = file.tensors.at("inputs").spec.shape;
    rows_ += shape[0] * shape[1];
    files_.push_back(std::move(file));
  }
  if (rows_ == 0) fail("{}: no rows", files.empty() ? std::string("no files") : files.front().string());
}

void BatchesDataset::copy_row(const File& file, std::int64_t row, RowBatch& batch, std::int64_t target) const {
  const std::int64_t length = options_.sequence_length;
  const std::string place = file.tensors.path().string() + ": row " + std::to_string(row);
  const auto inputs = tensor_row(file.tensors, "inputs", row, length);
  const auto targets = tensor_row(file.tensors, "targets", row, length);
  const auto positions = tensor_row(file.tensors, "inputs_position", row, length);
  const auto segments = tensor_row(file.tensors, "inputs_segmentation", row, length);
  const auto target_segments = tensor_row(file.tensors, "targets_segmentation", row, length);
  std::vector<std::int64_t> lengths;
  try {
    lengths = document_lengths_of(segments);
  } catch (const Error& error) {
    fail("{}: inputs_segmentation: {}", place, error.what());
  }
  std::int64_t tokens = 0;
  for (const std::int64_t document : lengths) tokens += document;
  fill_row(batch, target, std::span(inputs).first(static_cast<std::size_t>(tokens)), lengths);
  const auto first = static_cast<std::size_t>(target * length);
  for (std::size_t i = 0; i < segments.size(); ++i) {
    const bool token = segments[i] != 0;
    const float weight = target_segments[i] != 0 ? 1.0F : 0.0F;
    const auto outside = [&](std::int32_t id) { return id < 0 || id >= options_.vocab_size; };
    if (token && outside(inputs[i])) {
      fail("{}: token {} at index {} is outside the vocabulary of {}", place, inputs[i], i, options_.vocab_size);
    }
    if (weight != 0 && outside(targets[i])) {
      fail("{}: target {} at index {} is outside the vocabulary of {}", place, targets[i], i, options_.vocab_size);
    }
    if (token && positions[i] != batch.position_ids[first + i]) {
      fail("{}: inputs_position {} at index {}, expected {}: positions restart at 0 in each document", place,
           positions[i], i, batch.position_ids[first + i]);
    }
    batch.targets[first + i] = weight != 0 ? targets[i] : 0;
    batch.weights[first + i] = weight;
  }
}

std::optional<RowBatch> BatchesDataset::read(std::int64_t first_row, std::int64_t rows) {
  if (const auto count = row_count(); count && first_row + rows > *count) return std::nullopt;
  RowBatch batch = padding_batch(rows, options_.sequence_length);
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t row = (first_row + i) % rows_;
    const auto next = std::upper_bound(files_.begin(), files_.end(), row,
                                       [](std::int64_t value, const File& file) { return value < file.first_row; });
    const File& file = *std::prev(next);
    copy_row(file, row - file.first_row, batch, i);
  }
  return batch;
}

std::optional<std::int64_t> BatchesDataset::row_count() { return rows_about(); }

std::optional<std::int64_t> BatchesDataset::rows_about() const {
  if (!options_.epochs) return std::nullopt;
  return rows_ * *options_.epochs;
}

std::string BatchesDataset::fingerprint() const {
  std::uint64_t hash = kContentHashStart;
  for (const File& file : files_) {
    for (const char* name : kTensors) hash = sampled_hash(file.tensors.at(name).bytes, hash);
  }
  return fmt::format("{} rows, contents {}", rows_, hash_text(hash));
}

}  // namespace maxtext
