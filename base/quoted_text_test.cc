// SPDX-License-Identifier: Apache-2.0

#include "base/quoted_text.h"

#include "gtest/gtest.h"

namespace cotan {
namespace {

TEST(QuotedTextTest, JsonKeepsTextInUtf8) {
  EXPECT_EQ(JsonQuoted("layer1.conv <3/4> \xC3\xA9"), "\"layer1.conv <3/4> \xC3\xA9\"");
}

TEST(QuotedTextTest, JsonEscapesQuotesBackslashesAndControlCharacters) {
  EXPECT_EQ(JsonQuoted("a\"b\\c\n\x1f"), R"("a\"b\\c\u000a\u001f")");
}

TEST(QuotedTextTest, XmlEscapesMarkupAndQuotesOnce) {
  EXPECT_EQ(XmlEscaped("a < b & \"c\" > &lt;"), "a &lt; b &amp; &quot;c&quot; &gt; &amp;lt;");
  EXPECT_EQ(XmlEscaped("layer1.conv"), "layer1.conv");
}

}  // namespace
}  // namespace cotan
