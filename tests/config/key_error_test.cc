#include "config/key_error.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace maxtext {
namespace {

using ::testing::StrEq;
using ::testing::ThrowsMessage;

TEST(KeyError, SaysThePathOnceHoweverTheReasonBeginsWithIt) {
  EXPECT_EQ(key_error("key", "/a", "/a: no such file"), "key=/a: no such file");
  EXPECT_EQ(key_error("key", "/a", "/a/x.json: not valid JSON"), "key=/a: x.json: not valid JSON");
  EXPECT_EQ(key_error("key", "/a/", "/a/x.json: not valid JSON"), "key=/a/: x.json: not valid JSON");
  EXPECT_EQ(key_error("key", "/a/", "/a/: no weights"), "key=/a/: no weights");
  EXPECT_EQ(key_error("key", "/a", "/ab/x.json: not valid JSON"), "key=/a: /ab/x.json: not valid JSON");
  EXPECT_EQ(key_error("key", "/a", "config.json: no"), "key=/a: config.json: no");
  EXPECT_EQ(key_error("key", "", "/a: no"), "key=: /a: no");
}

TEST(KeyError, ErrorsOfTheFileBecomeThoseOfTheKey) {
  EXPECT_EQ(open_for_key("key", "/a", [] { return 3; }), 3);
  EXPECT_THAT([] { open_for_key("key", "/a", [] { fail("/a: truncated"); }); },
              ThrowsMessage<ConfigError>(StrEq("key=/a: truncated")));
}

}  // namespace
}  // namespace maxtext
