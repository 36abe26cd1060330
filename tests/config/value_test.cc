#include "config/value.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace maxtext {
namespace {

using Strings = std::vector<std::string>;

TEST(ParseValue, Booleans) {
  for (const char* text : {"true", "True", "TRUE", "1", " true "}) {
    EXPECT_EQ(parse_value(ValueType::boolean, text), Value(true)) << text;
  }
  for (const char* text : {"false", "False", "0"})
    EXPECT_EQ(parse_value(ValueType::boolean, text), Value(false)) << text;
  for (const char* text : {"", "yes", "2", "truee", "None"}) {
    EXPECT_FALSE(parse_value(ValueType::boolean, text)) << text;
  }
}

TEST(ParseValue, Integers) {
  const auto parse = [](const char* text) { return parse_value(ValueType::integer, text); };
  EXPECT_EQ(parse("10"), Value(std::int64_t{10}));
  EXPECT_EQ(parse("-1"), Value(std::int64_t{-1}));
  EXPECT_EQ(parse("+7"), Value(std::int64_t{7}));
  EXPECT_EQ(parse("150_001"), Value(std::int64_t{150001}));
  EXPECT_EQ(parse("1e4"), Value(std::int64_t{10000}));
  EXPECT_EQ(parse("12.0"), Value(std::int64_t{12}));
  EXPECT_EQ(parse("9223372036854775807"), Value(std::int64_t{9223372036854775807}));
  for (const char* text : {"", "abc", "1.5", "1_", "_1", "1__0", "0x10", "1 2", "--1", "9223372036854775808", "1e300",
                           "inf", "nan", "true", "+-1"}) {
    EXPECT_FALSE(parse(text)) << text;
  }
}

TEST(ParseValue, Reals) {
  const auto parse = [](const char* text) { return parse_value(ValueType::real, text); };
  EXPECT_EQ(parse("3.e-5"), Value(3e-5));
  EXPECT_EQ(parse("0."), Value(0.0));
  EXPECT_EQ(parse("12"), Value(12.0));
  EXPECT_EQ(parse("10_000.5"), Value(10000.5));
  EXPECT_EQ(parse("1.0e-5"), Value(1e-5));
  for (const char* text : {"", "abc", "inf", "nan", "-inf", "1e999", "1.5x", "1._5"}) EXPECT_FALSE(parse(text)) << text;
}

TEST(ParseValue, Lists) {
  const auto parse = [](const char* text) { return parse_value(ValueType::list, text); };
  EXPECT_EQ(parse(""), Value(Strings{}));
  EXPECT_EQ(parse("[]"), Value(Strings{}));
  EXPECT_EQ(parse("silu"), Value(Strings{"silu"}));
  EXPECT_EQ(parse("silu, linear"), Value(Strings{"silu", "linear"}));
  EXPECT_EQ(parse("['silu','linear']"), Value(Strings{"silu", "linear"}));
  EXPECT_EQ(parse("[\"a b\", 'c,d']"), Value(Strings{"a b", "c,d"}));
  for (const char* text : {"a,", ",a", "a,,b", "[a", "[[a], b]", "[a: b]"}) EXPECT_FALSE(parse(text)) << text;
}

TEST(FormatValue, ParsesBackToTheSameValue) {
  const std::vector<Value> values = {true,
                                     false,
                                     std::int64_t{-9223372036854775807},
                                     3e-5,
                                     0.1,
                                     1.0 / 3.0,
                                     1e300,
                                     Strings{},
                                     Strings{"a"},
                                     Strings{"a b", "c,d", "", "quote \" and \\ and\nline", "[x]", "true", "1e5"}};
  for (const Value& value : values) {
    EXPECT_EQ(parse_value(type_of(value), format_value(value)), value) << format_value(value);
  }
}

TEST(FormatValue, QuotesTextThatYamlWouldReadOtherwise) {
  EXPECT_EQ(format_value(Value(std::string("llama2-7b"))), "llama2-7b");
  EXPECT_EQ(format_value(Value(std::string(""))), "\"\"");
  EXPECT_EQ(format_value(Value(std::string("true"))), "\"true\"");
  EXPECT_EQ(format_value(Value(std::string("null"))), "\"null\"");
  EXPECT_EQ(format_value(Value(std::string("a: b"))), "\"a: b\"");
  EXPECT_EQ(format_value(Value(std::string("a\"b"))), "\"a\\\"b\"");
}

}  // namespace
}  // namespace maxtext
