// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/json.h"

#include "gtest/gtest.h"

namespace cotan::tools {
namespace {

TEST(JsonTest, PlainTextStaysAsItIs) { EXPECT_EQ(JsonString("layer1.conv 3/4"), "\"layer1.conv 3/4\""); }

TEST(JsonTest, QuotesControlsAndMarkupAreEscaped) {
  EXPECT_EQ(JsonString("\"\\\n"), R"("\u0022\u005c\u000a")");
  EXPECT_EQ(JsonString("</script>&"), R"("\u003c/script\u003e\u0026")");
}

TEST(JsonTest, OtherCharactersBecomeUtf16) {
  EXPECT_EQ(JsonString("\xC3\xA9"), R"("\u00e9")");
  EXPECT_EQ(JsonString("\xE2\x80\xA8"), R"("\u2028")");
  EXPECT_EQ(JsonString("\xF0\x9F\x98\x80"), R"("\ud83d\ude00")");
}

TEST(JsonTest, BytesThatAreNotUtf8AreReplaced) {
  EXPECT_EQ(JsonString("a\xFFz"), R"("a\ufffdz")");
  EXPECT_EQ(JsonString("\xC3"), R"("\ufffd")");                      // cut off
  EXPECT_EQ(JsonString("\xE0\x80\x80"), R"("\ufffd\ufffd\ufffd")");  // overlong
  EXPECT_EQ(JsonString("\xED\xA0\x80"), R"("\ufffd\ufffd\ufffd")");  // surrogate
}

}  // namespace
}  // namespace cotan::tools
