#include "tokenizer/pre_tokenizer.h"

#include <string>
#include <utility>
#include <vector>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/metaspace.h"
#include "tokenizer/pattern.h"
#include "tokenizer/split.h"
#include "tokenizer/unicode.h"
#include "tokenizer/utf8.h"

namespace maxtext {
namespace {

/// GPT-2's words, which ByteLevel brings along.
constexpr std::string_view kGpt2Words = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
/// Rust's \w+|[^\w\s]+: its word characters include the two joiners.
constexpr std::string_view kWords = R"([\w\x{200c}\x{200d}]+|[^\w\x{200c}\x{200d}\s]+)";

using Stages = std::vector<std::unique_ptr<PreTokenizer>>;

/// Hands pieces to a stage of a sequence and, from there, to the next.
class StageSink final : public PieceSink {
 public:
  StageSink(const Stages& stages, std::size_t stage, RegexScratch& scratch, PieceSink& last)
      : stages_(stages), stage_(stage), scratch_(scratch), last_(last) {}

  void take(const TextPiece& piece) override {
    if (stage_ == stages_.size()) return last_.take(piece);
    StageSink next(stages_, stage_ + 1, scratch_, last_);
    stages_[stage_]->split(piece, scratch_, next);
  }

 private:
  const Stages& stages_;
  std::size_t stage_;
  RegexScratch& scratch_;
  PieceSink& last_;
};

class PreTokenizerSequence final : public PreTokenizer {
 public:
  explicit PreTokenizerSequence(Stages stages) : stages_(std::move(stages)) {}
  void split(const TextPiece& piece, RegexScratch& scratch, PieceSink& sink) const override {
    StageSink(stages_, 0, scratch, sink).take(piece);
  }

 private:
  Stages stages_;
};

void split_at(const Splitter& splitter, const TextPiece& piece, RegexScratch& scratch, PieceSink& sink) {
  splitter.split(piece.text, scratch, [&](Match range) {
    sink.take({piece.text.substr(range.begin, range.end - range.begin), piece.at_start && range.begin == 0});
  });
}

class SplitPreTokenizer final : public PreTokenizer {
 public:
  SplitPreTokenizer(std::unique_ptr<Pattern> pattern, SplitBehavior behavior, bool invert = false)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}
  void split(const TextPiece& piece, RegexScratch& scratch, PieceSink& sink) const override {
    split_at({*pattern_, behavior_, invert_}, piece, scratch, sink);
  }

 private:
  std::unique_ptr<Pattern> pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

/// Maps what it takes to the byte alphabet.
class ByteCharacterSink final : public PieceSink {
 public:
  explicit ByteCharacterSink(PieceSink& sink) : sink_(sink) {}
  void take(const TextPiece& piece) override {
    const std::string text = to_byte_characters(piece.text);
    sink_.take({text, piece.at_start});
  }

 private:
  PieceSink& sink_;
};

class ByteLevelPreTokenizer final : public PreTokenizer {
 public:
  ByteLevelPreTokenizer(const JsonNode& node, bool maps)
      : adds_space_(node.boolean_or("add_prefix_space", true)), maps_(maps) {
    if (node.boolean_or("use_regex", true)) words_ = regex_pattern(kGpt2Words);
  }

  void split(const TextPiece& piece, RegexScratch& scratch, PieceSink& sink) const override {
    if (!maps_) return split_words(piece, scratch, sink);
    ByteCharacterSink mapping(sink);
    split_words(piece, scratch, mapping);
  }

 private:
  void split_words(const TextPiece& piece, RegexScratch& scratch, PieceSink& sink) const {
    if (!adds_space_ || piece.text.starts_with(' ')) return split_plain(piece, scratch, sink);
    std::string text;
    text.reserve(piece.text.size() + 1);
    text += ' ';
    text += piece.text;
    split_plain({text, piece.at_start}, scratch, sink);
  }

  void split_plain(const TextPiece& piece, RegexScratch& scratch, PieceSink& sink) const {
    if (!words_) return sink.take(piece);
    split_at({*words_, SplitBehavior::isolated}, piece, scratch, sink);
  }

  bool adds_space_;
  bool maps_;
  std::unique_ptr<Pattern> words_;
};

class MetaspacePreTokenizer final : public PreTokenizer {
 public:
  explicit MetaspacePreTokenizer(const JsonNode& node)
      : metaspace_(parse_metaspace(node)), space_(literal_pattern(" ")) {
    if (node.boolean_or("split", true)) replacement_ = literal_pattern(metaspace_.replacement);
  }

  void split(const TextPiece& piece, RegexScratch& scratch, PieceSink& sink) const override {
    std::string text = replace_matches(*space_, piece.text, metaspace_.replacement, scratch);
    if (prepends(piece) && !text.starts_with(metaspace_.replacement)) text.insert(0, metaspace_.replacement);
    const TextPiece whole{text, piece.at_start};
    if (!replacement_) return sink.take(whole);
    split_at({*replacement_, SplitBehavior::merged_with_next}, whole, scratch, sink);
  }

 private:
  bool prepends(const TextPiece& piece) const {
    return metaspace_.prepend == PrependScheme::always ||
           (metaspace_.prepend == PrependScheme::first && piece.at_start);
  }

  Metaspace metaspace_;
  std::unique_ptr<Pattern> space_;
  std::unique_ptr<Pattern> replacement_;
};

std::unique_ptr<PreTokenizer> parse_split(const JsonNode& node) {
  return std::make_unique<SplitPreTokenizer>(
      parse_pattern(node.at("pattern")), parse_split_behavior(node.at("behavior")), node.boolean_or("invert", false));
}

std::unique_ptr<PreTokenizer> parse_digits(const JsonNode& node) {
  const bool individual = node.boolean_or("individual_digits", false);
  return std::make_unique<SplitPreTokenizer>(character_pattern(is_numeric),
                                             individual ? SplitBehavior::isolated : SplitBehavior::contiguous);
}

std::unique_ptr<PreTokenizer> parse_punctuation(const JsonNode& node) {
  const auto behavior = node.find("behavior");
  return std::make_unique<SplitPreTokenizer>(character_pattern(is_punctuation),
                                             behavior ? parse_split_behavior(*behavior) : SplitBehavior::isolated);
}

std::unique_ptr<PreTokenizer> parse_stage(const JsonNode& node, bool maps_bytes, bool& byte_level);

/// The last stage may leave out the mapping of bytes; stages before it must not, as others work on what they made.
std::unique_ptr<PreTokenizer> parse_sequence(const JsonNode& node, bool maps_bytes, bool& byte_level) {
  const auto nodes = node.at("pretokenizers").list();
  Stages stages;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    stages.push_back(parse_stage(nodes[i], maps_bytes || i + 1 < nodes.size(), byte_level));
  }
  return std::make_unique<PreTokenizerSequence>(std::move(stages));
}

/// Sets `byte_level` to whether the last stage is ByteLevel.
std::unique_ptr<PreTokenizer> parse_stage(const JsonNode& node, bool maps_bytes, bool& byte_level) {
  const std::string type = node.type();
  byte_level = type == "ByteLevel";
  if (byte_level) return std::make_unique<ByteLevelPreTokenizer>(node, maps_bytes);
  if (type == "Sequence") return parse_sequence(node, maps_bytes, byte_level);
  if (type == "Split") return parse_split(node);
  if (type == "Metaspace") return std::make_unique<MetaspacePreTokenizer>(node);
  if (type == "Digits") return parse_digits(node);
  if (type == "Punctuation") return parse_punctuation(node);
  if (type == "Whitespace") {
    return std::make_unique<SplitPreTokenizer>(regex_pattern(kWords), SplitBehavior::removed, true);
  }
  if (type == "WhitespaceSplit") {
    return std::make_unique<SplitPreTokenizer>(character_pattern(is_white_space), SplitBehavior::removed);
  }
  node.refuse_type(
      {"Sequence", "Split", "ByteLevel", "Metaspace", "Digits", "Punctuation", "Whitespace", "WhitespaceSplit"});
}

}  // namespace

PreTokenization parse_pre_tokenizer(const JsonNode& node, bool may_leave_bytes) {
  PreTokenization result;
  bool byte_level = false;
  result.pre_tokenizer = parse_stage(node, !may_leave_bytes, byte_level);
  result.leaves_bytes = may_leave_bytes && byte_level;
  return result;
}

}  // namespace maxtext
