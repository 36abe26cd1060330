#include "tokenizer/post_processor.h"

#include <string>

#include "tokenizer/token_table.h"

namespace maxtext {
namespace {

void append_special_token(const JsonNode& item, const JsonNode& known, std::vector<std::int32_t>& ids) {
  const JsonNode token = known.at(item.text("id"));
  for (const JsonNode& id : token.at("ids").list()) {
    if (id.integer() < 0 || id.integer() > TokenTable::kLargestId) id.refuse("expected a token's id");
    ids.push_back(static_cast<std::int32_t>(id.integer()));
  }
}

SpecialAffixes parse_template(const JsonNode& node) {
  SpecialAffixes affixes;
  int texts = 0;
  for (const JsonNode& item : node.at("single").list()) {
    if (const auto token = item.find("SpecialToken")) {
      append_special_token(*token, node.at("special_tokens"), texts == 0 ? affixes.prefix : affixes.suffix);
    } else if (item.at("Sequence").text("id") == "A") {
      ++texts;
    } else {
      item.refuse("expected the sequence A in the template of a single text");
    }
  }
  if (texts != 1) node.refuse("single: expected the sequence A once, found it {} times", texts);
  return affixes;
}

SpecialAffixes parse_sequence(const JsonNode& node) {
  SpecialAffixes all;
  for (const JsonNode& part : node.at("processors").list()) {
    const SpecialAffixes outer = parse_post_processor(part);
    all.prefix.insert(all.prefix.begin(), outer.prefix.begin(), outer.prefix.end());
    all.suffix.insert(all.suffix.end(), outer.suffix.begin(), outer.suffix.end());
  }
  return all;
}

}  // namespace

SpecialAffixes parse_post_processor(const JsonNode& node) {
  const std::string type = node.type();
  if (type == "TemplateProcessing") return parse_template(node);
  if (type == "Sequence") return parse_sequence(node);
  if (type == "ByteLevel") return {};
  node.refuse_type({"TemplateProcessing", "ByteLevel", "Sequence"});
}

}  // namespace maxtext
