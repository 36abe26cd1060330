// Training of SentencePiece models, with the settings of Llama's: text is kept as it is (no Unicode normalisation, no
// squeezed spaces), digits are single tokens, and unknown characters fall back to their bytes, so decoding gives back
// what was encoded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace maxtext {

struct SentencepieceTrainingOptions {
  /// The model is written to <prefix>.model, and its pieces with their scores to <prefix>.vocab.
  std::filesystem::path model_prefix;
  /// "bpe" or "unigram".
  std::string model_type = "bpe";
  std::int32_t vocab_size = 8192;
  /// Share of the characters of the text that get a piece of their own, in (0, 1].
  double character_coverage = 0.9995;
  bool byte_fallback = true;
  bool split_digits = true;
  /// Train on a random sample of this many lines; 0 means all. Training holds them in memory.
  std::int64_t sample_lines = 0;
};

/// Stores the next line of the training text and returns true, or returns false at its end.
using LineSource = std::function<bool(std::string& line)>;

/// Trains on all lines of `lines` and writes the model atomically. Ids are Llama's: unk 0, bos 1, eos 2, no pad. The
/// result depends on text and options only. Throws ConfigError for options out of range and for a vocabulary that the
/// text is too small (or the byte pieces too many) for; passes on what `lines` throws.
void train_sentencepiece(const SentencepieceTrainingOptions& options, const LineSource& lines);

}  // namespace maxtext
