// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/idx_dataset.h"

#include <algorithm>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::training {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Idx(char type, std::vector<char> sizes, absl::string_view data) {
  std::string bytes = {'\0', '\0', type, static_cast<char>(sizes.size())};
  for (char size : sizes) bytes += std::string({'\0', '\0', '\0', size});
  return absl::StrCat(bytes, data);
}

std::string Write(absl::string_view name, absl::string_view bytes) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  EXPECT_TRUE(WriteFileAtomically(path, {bytes}).ok());
  return path;
}

std::string Refusal(absl::string_view bytes) {
  const absl::Status status = ParseIdx(bytes, "images").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  return std::string(status.message());
}

TEST(IdxDatasetTest, ReadsBigEndianElements) {
  const absl::StatusOr<Tensor> bytes = ParseIdx(Idx(8, {2, 2}, "abcd"), "images");
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_THAT(*bytes->ToVector<uint8_t>(), ElementsAre('a', 'b', 'c', 'd'));
  EXPECT_THAT(*ParseIdx(Idx(0x0B, {2}, absl::string_view("\x01\x02\xff\xfe", 4)), "x")->ToVector<int16_t>(),
              ElementsAre(258, -2));
  EXPECT_THAT(*ParseIdx(Idx(0x0D, {1}, absl::string_view("\x3f\xc0\0\0", 4)), "x")->ToVector<float>(),
              ElementsAre(1.5f));
}

TEST(IdxDatasetTest, MistakesAreNamedWithTheirPlace) {
  EXPECT_EQ(Refusal("\x1f\x8b\x08garbage"), "images is compressed; unpack it with gunzip");
  EXPECT_THAT(Refusal("GIF89a"), HasSubstr("images is not an IDX file: it begins with 47494638"));
  EXPECT_THAT(Refusal(""), HasSubstr("not an IDX file"));
  EXPECT_THAT(Refusal(Idx(8, {}, "a")), HasSubstr("offset 3: 0 dimensions"));
  EXPECT_THAT(Refusal(Idx(8, {3}, "ab")),
              HasSubstr("offset 4: the header says u8[3], but 2 bytes follow it at offset 8"));
  EXPECT_THAT(Refusal(absl::string_view("\0\0\x08\x02\xff\xff\xff\xff\xff\xff\xff\xff", 12)),
              HasSubstr("u8[4294967295,4294967295]"));
}

TEST(IdxDatasetTest, PairsFilesOfEquallyManyExamples) {
  const std::string images = Write("pair_images", Idx(8, {2, 2}, "abcd"));
  const std::string labels = Write("pair_labels", Idx(8, {2}, "\x07\x09"));
  const absl::StatusOr<Dataset> data = ReadIdxDataset({{"inputs", images}, {"targets", labels}});
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->size(), 2);
  const std::string more = Write("pair_more", Idx(8, {3}, "\x07\x09\x01"));
  const absl::Status status = ReadIdxDataset({{"inputs", images}, {"targets", more}}).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("pair_more: column 'targets' has 3 examples"));
}

TEST(IdxDatasetTest, MissingFileIsNamed) {
  EXPECT_EQ(ReadIdx("/no/such/file").status().code(), absl::StatusCode::kNotFound);
  Write("packed.gz", "x");
  EXPECT_THAT(std::string(ReadIdx(absl::StrCat(::testing::TempDir(), "/packed")).status().message()),
              HasSubstr("unpack it with gunzip"));
}

TEST(IdxDatasetTest, DamagedFilesGiveATensorOrAnErrorWithThePath) {
  const std::string file = Idx(0x0C, {2, 3}, std::string(24, '\x05'));
  std::mt19937_64 random(testing::TestSeed());
  int refused = 0;
  for (int trial = 0; trial < 5000; ++trial) {
    std::string damaged = file.substr(0, trial % 2 == 0 ? file.size() : random() % (file.size() + 1));
    for (uint64_t flips = random() % 3; flips > 0 && !damaged.empty(); --flips) {
      damaged[random() % std::min<size_t>(damaged.size(), 14)] = static_cast<char>(random());
    }
    const absl::StatusOr<Tensor> tensor = ParseIdx(damaged, "images");
    if (tensor.ok()) {
      EXPECT_LE(tensor->storage()->bytes(), damaged.size());
      continue;
    }
    ++refused;
    EXPECT_EQ(tensor.status().code(), absl::StatusCode::kInvalidArgument) << tensor.status();
    EXPECT_THAT(std::string(tensor.status().message()), ::testing::StartsWith("images"));
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace cotan::training
