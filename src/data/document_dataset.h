// Rows packed from the documents of a token store.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/packing.h"
#include "data/token_store.h"

namespace maxtext {

/// Which documents a dataset consists of.
enum class DocumentChoice {
  all,
  training,  ///< those that are not held out
  held_out   ///< a share `held_out_fraction`, evenly spread over the documents
};

struct DocumentDatasetOptions {
  std::int64_t sequence_length = 0;
  /// Several documents per row; otherwise one, and padding.
  bool packing = true;
  /// Documents per packed row at most; 0 sets no limit.
  std::int64_t max_segments = 0;
  bool shuffle = true;
  std::uint64_t seed = 0;
  /// Passes over the documents; nothing means without end.
  std::optional<std::int64_t> epochs = 1;
  DocumentChoice choice = DocumentChoice::all;
  double held_out_fraction = 0;
  /// Where the documents are from, for messages: "a.txt and 2 more files".
  std::string source = "the data";
};

/// Whether `document` is among the `fraction` that is held out: exactly floor(n·fraction) of the first n are.
bool is_held_out(std::int64_t document, double fraction);

/// A document longer than a row is cut into pieces of a row's length and a rest, each a document of its own in the row.
/// Epoch e visits all pieces once in an order given by (seed, e). Consecutive pieces with together about 128 rows of
/// tokens form a window and are packed among themselves, and the rows of a window are shuffled; so any row can be read
/// by packing its window, and the index in memory is 16 bytes per window. Cutting adds 16 bytes per document that is
/// longer than a row. Opening, and passing over an epoch, cost one look at each document's length.
class DocumentDataset final : public Dataset {
 public:
  /// Throws Error when the chosen documents hold no token, naming source, number of documents, and what to do.
  DocumentDataset(std::shared_ptr<const TokenStore> store, DocumentDatasetOptions options);

  std::int64_t sequence_length() const override { return options_.sequence_length; }
  std::optional<RowBatch> read(std::int64_t first_row, std::int64_t rows) override;
  std::optional<std::int64_t> row_count() override;
  std::optional<std::int64_t> rows_about() const override;
  std::string fingerprint() const override { return store_->fingerprint(); }

 private:
  struct Window {
    std::int64_t first_position;
    std::int64_t first_row;
  };
  struct LongDocument {
    std::int64_t document;
    std::int64_t first_extra_piece;
  };

  void survey();
  [[noreturn]] void fail_without_tokens() const;
  bool chosen(std::int64_t document) const;
  std::optional<Piece> piece_at(std::int64_t position) const;
  std::vector<Piece> window_pieces(std::int64_t& position) const;
  void start_epoch(std::int64_t epoch);
  void add_window();
  const PackedRow* find_row(std::int64_t row);
  void pack_window(std::int64_t window);
  void fill(RowBatch& batch, std::int64_t row, const PackedRow& packed) const;

  std::shared_ptr<const TokenStore> store_;
  DocumentDatasetOptions options_;
  /// Pieces are numbered: first pieces of all documents, then the further pieces of the long ones.
  std::vector<LongDocument> long_documents_;
  std::int64_t piece_count_ = 0;
  /// Of the chosen documents.
  std::int64_t tokens_ = 0;
  std::int64_t filled_pieces_ = 0;

  std::vector<std::int64_t> epoch_begins_ = {0};  // first row of each epoch known so far
  std::int64_t epoch_ = -1;                       // the one that the members below describe
  std::vector<Window> windows_;
  std::int64_t indexed_pieces_ = 0;
  std::int64_t indexed_rows_ = 0;
  std::int64_t packed_window_ = -1;
  std::vector<PackedRow> packed_;
};

}  // namespace maxtext
