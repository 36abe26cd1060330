#include "data/document_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "base/error.h"
#include "data/temporary_folder.h"

namespace maxtext {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

/// Documents whose tokens are all different: token i of the whole store has id i.
class DocumentDatasetTest : public testing::FolderTest {
 protected:
  void make_store(const std::vector<std::int64_t>& lengths, std::size_t files = 1) {
    lengths_ = lengths;
    std::vector<TokenFile> parts;
    std::size_t document = 0;
    std::int32_t id = 0;
    for (std::size_t file = 0; file < files; ++file) {
      std::vector<std::uint32_t> tokens;
      std::vector<std::uint64_t> starts;
      for (; document < lengths.size() * (file + 1) / files; ++document) {
        starts.push_back(tokens.size());
        for (std::int64_t i = 0; i < lengths[document]; ++i) tokens.push_back(static_cast<std::uint32_t>(id++));
      }
      const std::string name = fmt::format("t{}", file);
      parts.push_back({IntegerArray::open_raw(write_array(name + ".bin", tokens), IntegerType::uint32),
                       IntegerArray::open_raw(write_array(name + ".idx", starts), IntegerType::uint64)});
    }
    total_ = id;
    store_ = std::make_shared<TokenStore>(std::move(parts), total_);
  }

  void make_random_store(int documents, std::int64_t longest, unsigned seed, std::size_t files = 1) {
    std::mt19937 random(seed);
    std::vector<std::int64_t> lengths;
    for (int i = 0; i < documents; ++i) lengths.push_back(static_cast<std::int64_t>(random()) % (longest + 1));
    make_store(lengths, files);
  }

  std::int64_t document_of(std::int32_t id) const {
    std::int64_t end = 0;
    for (std::size_t document = 0; document < lengths_.size(); ++document) {
      end += lengths_[document];
      if (id < end) return static_cast<std::int64_t>(document);
    }
    return -1;
  }

  DocumentDataset open(const DocumentDatasetOptions& options) const { return DocumentDataset(store_, options); }

  static DocumentDatasetOptions options(std::int64_t length) {
    DocumentDatasetOptions result;
    result.sequence_length = length;
    result.seed = 5;
    return result;
  }

  /// Checks one row against the definition, and counts its tokens in `seen`.
  void check_row(const RowBatch& batch, std::int64_t row, std::vector<int>& seen) const {
    const std::int64_t length = batch.sequence_length;
    const auto at = [&](const auto& array, std::int64_t i) {
      return array[static_cast<std::size_t>(row * length + i)];
    };
    std::int64_t tokens = 0;
    std::int32_t segments = 0;
    for (std::int64_t i = 0; i < length; ++i) {
      const std::int32_t segment = at(batch.segment_ids, i);
      if (segment == 0) {
        EXPECT_EQ(at(batch.inputs, i), 0);
        EXPECT_EQ(at(batch.targets, i), 0);
        EXPECT_EQ(at(batch.position_ids, i), 0);
        EXPECT_EQ(at(batch.weights, i), 0.0F);
        continue;
      }
      ASSERT_EQ(tokens, i) << "padding is at the tail only";
      ++tokens;
      ++seen[static_cast<std::size_t>(at(batch.inputs, i))];
      const bool first = i == 0 || at(batch.segment_ids, i - 1) != segment;
      segments += first ? 1 : 0;
      EXPECT_EQ(segment, segments);
      EXPECT_EQ(at(batch.position_ids, i), first ? 0 : at(batch.position_ids, i - 1) + 1);
      const bool last = i + 1 == length || at(batch.segment_ids, i + 1) != segment;
      EXPECT_EQ(at(batch.weights, i), last ? 0.0F : 1.0F);
      if (last) continue;
      EXPECT_EQ(at(batch.targets, i), at(batch.inputs, i + 1));
      EXPECT_EQ(at(batch.inputs, i + 1), at(batch.inputs, i) + 1) << "consecutive tokens of a document";
      EXPECT_EQ(document_of(at(batch.inputs, i)), document_of(at(batch.inputs, i + 1)));
    }
    EXPECT_GT(tokens, 0);
    std::int64_t sum = 0;
    for (const std::int64_t document : batch.document_lengths[static_cast<std::size_t>(row)]) sum += document;
    EXPECT_EQ(sum, tokens);
    EXPECT_EQ(std::ssize(batch.document_lengths[static_cast<std::size_t>(row)]), segments);
  }

  std::vector<std::int64_t> lengths_;
  std::int64_t total_ = 0;
  std::shared_ptr<TokenStore> store_;
};

TEST_F(DocumentDatasetTest, EveryTokenOnceInEveryEpoch) {
  for (const bool packing : {true, false}) {
    for (const bool shuffle : {true, false}) {
      for (unsigned seed = 0; seed < 6; ++seed) {
        make_random_store(300, 3 + 11 * seed, seed, 1 + seed % 3);
        auto wanted = options(8 + 5 * seed);
        wanted.packing = packing;
        wanted.shuffle = shuffle;
        auto once = open(wanted);
        const std::int64_t epoch_rows = once.row_count().value();
        wanted.epochs = 3;
        auto dataset = open(wanted);
        const std::int64_t rows = dataset.row_count().value();
        const auto batch = dataset.read(0, rows).value();
        std::vector<int> seen(static_cast<std::size_t>(total_));
        for (std::int64_t row = 0; row < rows; ++row) {
          check_row(batch, row, seen);
          if (row + 1 != epoch_rows) continue;
          for (const int count : seen) ASSERT_EQ(count, 1);
        }
        for (const int count : seen) ASSERT_EQ(count, 3);
        EXPECT_FALSE(dataset.read(rows - 1, 2).has_value());
        EXPECT_FALSE(dataset.read(rows, 1).has_value());
        EXPECT_TRUE(dataset.read(rows - 1, 1).has_value());
      }
    }
  }
}

TEST_F(DocumentDatasetTest, LongDocumentsAreCutIntoFullRowsAndARest) {
  make_store({25, 3, 10, 0, 1});
  auto wanted = options(10);
  wanted.shuffle = false;
  auto dataset = open(wanted);
  const auto batch = dataset.read(0, dataset.row_count().value()).value();
  std::multiset<std::int64_t> pieces;
  for (const auto& row : batch.document_lengths) pieces.insert(row.begin(), row.end());
  EXPECT_EQ(pieces, (std::multiset<std::int64_t>{10, 10, 5, 3, 10, 1}));
  EXPECT_EQ(batch.rows, 4);
  wanted.packing = false;
  auto unpacked = open(wanted);
  EXPECT_EQ(unpacked.row_count(), 6);
}

TEST_F(DocumentDatasetTest, ResumesAtAnyRowWithTheSameRows) {
  make_random_store(2000, 60, 1);
  auto wanted = options(32);
  wanted.epochs = std::nullopt;
  auto whole = open(wanted);
  const std::int64_t rows = 4500;  // more than two epochs
  const auto expected = whole.read(0, rows).value();
  const auto row_of = [&](const RowBatch& batch, std::int64_t row) {
    const auto first = batch.inputs.begin() + row * 32;
    return std::vector<std::int32_t>(first, first + 32);
  };
  for (const std::int64_t start : {0, 1, 63, 64, 65, 700, 1999, 2600, 4499}) {
    DocumentDataset resumed(store_, wanted);
    std::int64_t first = start;
    for (const std::int64_t size : {1, 3, 7}) {
      const auto batch = resumed.read(first, size).value();
      for (std::int64_t row = 0; row < size && first + row < rows; ++row) {
        ASSERT_EQ(row_of(batch, row), row_of(expected, first + row)) << first + row;
      }
      first += size;
    }
  }
  // Backwards too, over the borders of windows and epochs, in one dataset.
  for (std::int64_t row = rows - 1; row >= 0; row -= 97) {
    ASSERT_EQ(row_of(whole.read(row, 1).value(), 0), row_of(expected, row)) << row;
  }
}

TEST_F(DocumentDatasetTest, OrderDependsOnSeedAndEpoch) {
  make_random_store(500, 40, 2);
  auto wanted = options(64);
  wanted.epochs = 2;
  auto dataset = open(wanted);
  auto again = open(wanted);
  const auto all = dataset.read(0, dataset.row_count().value()).value();
  EXPECT_EQ(again.read(0, all.rows), all);
  wanted.seed = 6;
  auto other = open(wanted);
  EXPECT_NE(other.read(0, 5).value().inputs, dataset.read(0, 5).value().inputs);
  wanted.epochs = 1;
  wanted.seed = 5;
  auto once = open(wanted);
  const std::int64_t epoch = once.row_count().value();
  EXPECT_NE(dataset.read(0, 5).value().inputs, dataset.read(epoch, 5).value().inputs);
  // Rows near each other hold documents from everywhere.
  std::set<std::int64_t> quarters;
  for (const std::int32_t id : all.inputs) {
    if (quarters.size() < 4) quarters.insert(document_of(id) / 125);
  }
  EXPECT_EQ(quarters.size(), 4U);
}

TEST_F(DocumentDatasetTest, PackingLeavesFewHoles) {
  make_random_store(4000, 100, 3);
  auto dataset = open(options(128));
  const double slots = static_cast<double>(dataset.row_count().value()) * 128;
  EXPECT_LT(slots / static_cast<double>(total_), 1.02);
}

TEST_F(DocumentDatasetTest, OneLongDocumentIsShuffledByPieces) {
  make_store({64 * 32});
  auto dataset = open(options(32));
  const auto batch = dataset.read(0, 64).value();
  std::vector<std::int32_t> firsts;
  for (std::int64_t row = 0; row < 64; ++row) firsts.push_back(batch.inputs[static_cast<std::size_t>(row * 32)]);
  EXPECT_FALSE(std::is_sorted(firsts.begin(), firsts.end()));
  EXPECT_EQ(std::set(firsts.begin(), firsts.end()).size(), 64U);
}

TEST_F(DocumentDatasetTest, HeldOutDocumentsAreNeverTrainedOn) {
  for (const double fraction : {0.01, 0.1, 0.3, 0.5}) {
    make_random_store(400, 50, 4);
    auto wanted = options(32);
    wanted.held_out_fraction = fraction;
    std::vector<int> seen(static_cast<std::size_t>(total_));
    std::set<std::int64_t> documents;
    for (const auto choice : {DocumentChoice::training, DocumentChoice::held_out}) {
      wanted.choice = choice;
      auto dataset = open(wanted);
      const auto batch = dataset.read(0, dataset.row_count().value()).value();
      for (std::int64_t row = 0; row < batch.rows; ++row) check_row(batch, row, seen);
      if (choice == DocumentChoice::training) continue;
      for (std::size_t i = 0; i < batch.inputs.size(); ++i) {
        if (batch.segment_ids[i] != 0) documents.insert(document_of(batch.inputs[i]));
      }
    }
    for (const int count : seen) ASSERT_EQ(count, 1) << "in one of both, never in both";
    std::int64_t held_out = 0;
    for (std::int64_t document = 0; document < 400; ++document) held_out += is_held_out(document, fraction);
    EXPECT_EQ(held_out, static_cast<std::int64_t>(400 * fraction));
    EXPECT_TRUE(std::all_of(documents.begin(), documents.end(), [&](auto d) { return is_held_out(d, fraction); }));
  }
}

TEST_F(DocumentDatasetTest, TheLastBatchOfAnEvaluationIsPadded) {
  make_store({8, 8, 8});
  auto wanted = options(8);
  wanted.shuffle = false;
  auto dataset = open(wanted);
  const auto full = read_padded(dataset, 0, 2).value();
  EXPECT_EQ(total_weights(full), 14);
  const auto rest = read_padded(dataset, 2, 2).value();
  EXPECT_EQ(rest.rows, 2);
  EXPECT_EQ(total_weights(rest), 7);
  EXPECT_TRUE(rest.document_lengths[1].empty());
  EXPECT_FALSE(read_padded(dataset, 3, 2).has_value());
}

TEST_F(DocumentDatasetTest, DropsRowsThatDoNotFillABatchAtTheEnd) {
  make_store({8, 8, 8, 8, 8});
  DocumentDataset dataset(store_, options(8));
  EXPECT_TRUE(dataset.read(0, 2).has_value());
  EXPECT_TRUE(dataset.read(2, 2).has_value());
  EXPECT_FALSE(dataset.read(4, 2).has_value());
}

TEST_F(DocumentDatasetTest, AtMostSoManySegments) {
  make_random_store(300, 5, 7);
  auto wanted = options(64);
  wanted.max_segments = 4;
  auto dataset = open(wanted);
  const auto batch = dataset.read(0, dataset.row_count().value()).value();
  for (const auto& row : batch.document_lengths) EXPECT_LE(row.size(), 4U);
}

TEST_F(DocumentDatasetTest, NothingToReadIsAnError) {
  make_store({0, 0});
  EXPECT_THAT([&] { open(options(8)); }, ThrowsMessage<Error>(HasSubstr("no tokens: the data has 2 documents")));
  make_store({3, 3});
  auto wanted = options(8);
  wanted.choice = DocumentChoice::held_out;
  wanted.held_out_fraction = 0.1;
  wanted.source = "a.txt and 1 more files";
  EXPECT_THAT([&] { open(wanted); },
              ThrowsMessage<Error>(AllOf(HasSubstr("0.1 of the 2 documents of a.txt and 1 more files is none"),
                                         HasSubstr("document_separator"), HasSubstr("eval_files"))));
}

TEST_F(DocumentDatasetTest, RowsAreEstimatedWithoutPacking) {
  make_store({5, 20, 3, 0, 9});
  auto wanted = options(8);
  wanted.epochs = 3;
  EXPECT_EQ(open(wanted).rows_about(), 5 * 3) << "37 tokens";
  wanted.packing = false;
  auto rows = open(wanted);
  EXPECT_EQ(rows.rows_about(), (1 + 3 + 1 + 2) * 3);
  EXPECT_EQ(rows.rows_about(), rows.row_count());
  wanted.epochs.reset();
  EXPECT_EQ(open(wanted).rows_about(), std::nullopt);
}

TEST_F(DocumentDatasetTest, TokensOutsideTheVocabularyAreNamedByFileAndIndex) {
  make_store({5, 5});
  const auto path = folder_ / "t0.bin";
  std::vector<TokenFile> parts;
  parts.push_back({IntegerArray::open_raw(path, IntegerType::uint32), IntegerArray::single_zero()});
  DocumentDataset dataset(std::make_shared<TokenStore>(std::move(parts), 7), options(10));
  EXPECT_THAT([&] { dataset.read(0, 1); },
              ThrowsMessage<Error>(EndsWith("t0.bin: token 7 at index 7 is outside the vocabulary of 7")));
}

TEST_F(DocumentDatasetTest, ACorruptIndexIsAnError) {
  const auto tokens = write_array<std::uint16_t>("t.bin", {1, 2, 3, 4});
  const auto expect = [&](const std::vector<std::uint64_t>& starts) {
    const auto index = write_array("t.idx", starts);
    std::vector<TokenFile> parts;
    parts.push_back(
        {IntegerArray::open_raw(tokens, IntegerType::uint16), IntegerArray::open_raw(index, IntegerType::uint64)});
    const auto store = std::make_shared<TokenStore>(std::move(parts), 9);
    EXPECT_THAT([&] { DocumentDataset(store, options(4)); }, ThrowsMessage<Error>(HasSubstr("t.idx: document ")));
  };
  expect({1, 2});
  expect({0, 3, 2});
  expect({0, 5});
  expect({0, ~0ULL});
}

}  // namespace
}  // namespace maxtext
