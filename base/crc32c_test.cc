// SPDX-License-Identifier: Apache-2.0

#include "base/crc32c.h"

#include <string>

#include "gtest/gtest.h"

namespace cotan {
namespace {

// Values of RFC 3720, appendix B.4.
TEST(Crc32cTest, MatchesPublishedValues) {
  std::string ascending(32, '\0');
  for (size_t i = 0; i < ascending.size(); ++i) ascending[i] = static_cast<char>(i);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xFF')), 0x62A8AB43u);
  EXPECT_EQ(Crc32c(ascending), 0x46DD794Eu);
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(Crc32c(""), 0u);
}

TEST(Crc32cTest, ContinuesFromAnEarlierPart) { EXPECT_EQ(Crc32c("56789", Crc32c("1234")), Crc32c("123456789")); }

TEST(Crc32cTest, PortableFormAgreesAtEveryLengthAndAlignment) {
  std::string text(100, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * 37 + 11);
  for (size_t start = 0; start < 9; ++start) {
    for (size_t length = 0; start + length <= text.size(); ++length) {
      const absl::string_view part = absl::string_view(text).substr(start, length);
      ASSERT_EQ(crc32c_internal::Portable(part, 0), Crc32c(part)) << start << " " << length;
    }
  }
}

TEST(Crc32cTest, PortableFormAgreesOnLongTexts) {
  std::string text(60000, '\0');
  uint32_t random = 1;
  for (char& byte : text) byte = static_cast<char>((random = random * 1664525 + 1013904223) >> 24);
  for (const size_t length : {24575, 24576, 24577, 24584, 49151, 49152, 50000, 60000}) {
    const absl::string_view part = absl::string_view(text).substr(60000 - length);
    EXPECT_EQ(crc32c_internal::Portable(part, 5), Crc32c(part, 5)) << length;
  }
}

}  // namespace
}  // namespace cotan
