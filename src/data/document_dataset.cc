#include "data/document_dataset.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.h"
#include "data/permutation.h"

namespace maxtext {
namespace {

// Large enough that best fit leaves few holes (lengths uniform up to 0.8 rows: 1.5% with 64 rows, 0.6% with 128, 0.3%
// with 256), small enough to pack in a moment when a run resumes.
constexpr std::int64_t kWindowRows = 128;

}  // namespace

bool is_held_out(std::int64_t document, double fraction) {
  return std::floor(static_cast<double>(document + 1) * fraction) >
         std::floor(static_cast<double>(document) * fraction);
}

DocumentDataset::DocumentDataset(std::shared_ptr<const TokenStore> store, DocumentDatasetOptions options)
    : store_(std::move(store)), options_(options) {
  survey();
}

void DocumentDataset::survey() {
  std::int64_t extra = 0;
  for (std::int64_t document = 0; document < store_->documents(); ++document) {
    if (!chosen(document)) continue;
    const std::int64_t length = store_->length(document);
    tokens_ += length;
    filled_pieces_ += (length + options_.sequence_length - 1) / options_.sequence_length;
    if (length <= options_.sequence_length) continue;
    long_documents_.push_back({document, extra});
    extra += (length - 1) / options_.sequence_length;
  }
  if (tokens_ == 0) fail_without_tokens();
  piece_count_ = store_->documents() + extra;
}

void DocumentDataset::fail_without_tokens() const {
  const std::int64_t documents = store_->documents();
  if (documents == 0 || options_.choice != DocumentChoice::held_out) {
    fail("no tokens: {} has {} documents, all of them empty or held out", options_.source, documents);
  }
  fail(
      "no tokens to hold out: a share of {} of the {} documents of {} is none; set document_separator (blank_line: "
      "documents end at empty lines; else a file is one), or eval_files, or a larger share",
      options_.held_out_fraction, documents, options_.source);
}

bool DocumentDataset::chosen(std::int64_t document) const {
  if (options_.choice == DocumentChoice::all) return true;
  return is_held_out(document, options_.held_out_fraction) == (options_.choice == DocumentChoice::held_out);
}

/// The piece in place `position` of the current epoch; nothing when its document is empty or not chosen.
std::optional<Piece> DocumentDataset::piece_at(std::int64_t position) const {
  std::int64_t index = position;
  if (options_.shuffle) {
    const auto key = mix_keys(options_.seed, static_cast<std::uint64_t>(epoch_));
    index = Permutation(piece_count_, key)(position);
  }
  Piece piece{index, 0, 0};
  if (index >= store_->documents()) {
    const std::int64_t extra = index - store_->documents();
    const auto next =
        std::upper_bound(long_documents_.begin(), long_documents_.end(), extra,
                         [](std::int64_t value, const LongDocument& item) { return value < item.first_extra_piece; });
    const LongDocument& item = *std::prev(next);
    piece = {item.document, (extra - item.first_extra_piece + 1) * options_.sequence_length, 0};
  }
  if (!chosen(piece.document)) return std::nullopt;
  piece.length = std::min(store_->length(piece.document) - piece.offset, options_.sequence_length);
  if (piece.length == 0) return std::nullopt;
  return piece;
}

/// The pieces of the window that starts at `position`, which becomes the next window's.
std::vector<Piece> DocumentDataset::window_pieces(std::int64_t& position) const {
  std::vector<Piece> pieces;
  std::int64_t tokens = 0;
  while (position < piece_count_ && tokens < kWindowRows * options_.sequence_length) {
    const auto piece = piece_at(position++);
    if (!piece) continue;
    pieces.push_back(*piece);
    tokens += piece->length;
  }
  return pieces;
}

void DocumentDataset::start_epoch(std::int64_t epoch) {
  epoch_ = epoch;
  windows_.clear();
  indexed_pieces_ = 0;
  indexed_rows_ = 0;
  packed_window_ = -1;
}

void DocumentDataset::add_window() {
  windows_.push_back({indexed_pieces_, indexed_rows_});
  pack_window(std::ssize(windows_) - 1);
  indexed_rows_ += std::ssize(packed_);
}

void DocumentDataset::pack_window(std::int64_t window) {
  if (packed_window_ == window) return;
  std::int64_t position = windows_[static_cast<std::size_t>(window)].first_position;
  const auto pieces = window_pieces(position);
  indexed_pieces_ = std::max(indexed_pieces_, position);
  const PackingLimits limits{options_.sequence_length, options_.packing ? options_.max_segments : 1};
  auto rows = pack_pieces(pieces, limits);
  packed_.assign(rows.size(), {});
  const auto key =
      mix_keys(options_.seed, mix_keys(static_cast<std::uint64_t>(epoch_) + 1, static_cast<std::uint64_t>(window)));
  const Permutation order(std::ssize(rows), key);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    const auto source = options_.shuffle ? order(static_cast<std::int64_t>(row)) : static_cast<std::int64_t>(row);
    packed_[row] = std::move(rows[static_cast<std::size_t>(source)]);
  }
  packed_window_ = window;
}

/// The packed row number `row` over all epochs, valid until the next call; null beyond the end of the data.
const PackedRow* DocumentDataset::find_row(std::int64_t row) {
  auto epoch = std::upper_bound(epoch_begins_.begin(), epoch_begins_.end(), row) - epoch_begins_.begin() - 1;
  for (;; ++epoch) {
    if (options_.epochs && epoch >= *options_.epochs) return nullptr;
    if (epoch != epoch_) start_epoch(epoch);
    const std::int64_t local = row - epoch_begins_[static_cast<std::size_t>(epoch)];
    while (local >= indexed_rows_ && indexed_pieces_ < piece_count_) add_window();
    if (local < indexed_rows_) {
      const auto next = std::upper_bound(windows_.begin(), windows_.end(), local,
                                         [](std::int64_t value, const Window& item) { return value < item.first_row; });
      pack_window(next - windows_.begin() - 1);
      return &packed_[static_cast<std::size_t>(local - std::prev(next)->first_row)];
    }
    if (epoch + 1 == std::ssize(epoch_begins_)) epoch_begins_.push_back(epoch_begins_.back() + indexed_rows_);
  }
}

void DocumentDataset::fill(RowBatch& batch, std::int64_t row, const PackedRow& packed) const {
  std::vector<std::int32_t> ids;
  std::vector<std::int64_t> lengths;
  ids.reserve(static_cast<std::size_t>(options_.sequence_length));
  for (const Piece& piece : packed) {
    const std::size_t begin = ids.size();
    ids.resize(begin + static_cast<std::size_t>(piece.length));
    store_->read(piece.document, piece.offset, std::span(ids).subspan(begin));
    lengths.push_back(piece.length);
  }
  fill_row(batch, row, ids, std::move(lengths));
}

std::optional<RowBatch> DocumentDataset::read(std::int64_t first_row, std::int64_t rows) {
  RowBatch batch = padding_batch(rows, options_.sequence_length);
  for (std::int64_t i = 0; i < rows; ++i) {
    const PackedRow* packed = find_row(first_row + i);
    if (packed == nullptr) return std::nullopt;
    fill(batch, i, *packed);
  }
  return batch;
}

std::optional<std::int64_t> DocumentDataset::rows_about() const {
  if (!options_.epochs) return std::nullopt;
  const std::int64_t full = (tokens_ + options_.sequence_length - 1) / options_.sequence_length;
  const std::int64_t segments = options_.packing ? options_.max_segments : 1;
  const std::int64_t least = segments > 0 ? (filled_pieces_ + segments - 1) / segments : 0;
  const std::int64_t rows = std::max(full, least);
  if (rows > std::numeric_limits<std::int64_t>::max() / *options_.epochs) return std::nullopt;
  return rows * *options_.epochs;
}

std::optional<std::int64_t> DocumentDataset::row_count() {
  if (!options_.epochs) return std::nullopt;
  find_row(std::numeric_limits<std::int64_t>::max());
  return epoch_begins_[static_cast<std::size_t>(*options_.epochs)];
}

}  // namespace maxtext
