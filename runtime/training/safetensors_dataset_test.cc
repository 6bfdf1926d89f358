// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/safetensors_dataset.h"

#include <cstdio>
#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/session/safetensors.h"

namespace cotan::training {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Returns a file with x, f32 [2, 2], and y, i8 [examples].
std::string File(int64_t examples = 2) {
  const float x[] = {1, 2, 3, 4};
  const std::string y(static_cast<size_t>(examples), '\x05');
  SafetensorsFile file;
  file.tensors.push_back({"x", DType::kFloat32, {2, 2}, {reinterpret_cast<const char*>(x), sizeof(x)}});
  file.tensors.push_back({"y", DType::kInt8, {examples}, y});
  return absl::StrCat(*SafetensorsHeader(file), file.tensors[0].bytes, y);
}

TEST(SafetensorsDatasetTest, TensorsAreColumns) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/data.safetensors");
  const std::string bytes = File();
  ASSERT_TRUE(WriteFileAtomically(path, {bytes}).ok());
  const absl::StatusOr<Dataset> data = ReadSafetensors(path);
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->size(), 2);
  EXPECT_EQ(data->columns()[0].name, "x");
  EXPECT_THAT(*data->columns()[1].values.ToVector<int8_t>(), ElementsAre(5, 5));
}

TEST(SafetensorsDatasetTest, WritesWhatItReads) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/written.safetensors");
  const absl::StatusOr<Dataset> data = ParseSafetensorsDataset(File(), "d");
  ASSERT_TRUE(data.ok()) << data.status();
  const absl::Status written = WriteSafetensors(*data, path);
  ASSERT_TRUE(written.ok()) << written;
  EXPECT_EQ(MappedFile::Open(path)->bytes(), File());
  EXPECT_EQ(WriteSafetensors(*data, "/no/such/folder/x").code(), absl::StatusCode::kNotFound);
}

TEST(SafetensorsDatasetTest, WritesToAnOpenFileWhatItReads) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/open.safetensors");
  const absl::StatusOr<Dataset> data = ParseSafetensorsDataset(File(), "d");
  ASSERT_TRUE(data.ok()) << data.status();
  std::FILE* const file = std::fopen(path.c_str(), "w");
  ASSERT_NE(file, nullptr);
  const absl::Status written = WriteSafetensors(*data, fileno(file), "a file");
  std::fclose(file);
  EXPECT_TRUE(written.ok()) << written;
  EXPECT_EQ(MappedFile::Open(path)->bytes(), File());
  EXPECT_THAT(std::string(WriteSafetensors(*data, -1, "a file").message()), HasSubstr("a file"));
}

TEST(SafetensorsDatasetTest, MistakesAreNamedWithTheirPlace) {
  EXPECT_EQ(ReadSafetensors("/no/such").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(ParseSafetensorsDataset(File(3), "d").status().message(),
            "d: column 'y' has 3 examples, but the first column has 2");
  EXPECT_THAT(std::string(ParseSafetensorsDataset("1,2,3\n4,5,6\n", "d").status().message()),
              HasSubstr("d: not a safetensors file"));
}

TEST(SafetensorsDatasetTest, DamagedFilesGiveADatasetOrAnErrorWithThePath) {
  const std::string file = File();
  std::mt19937_64 random(testing::TestSeed());
  int refused = 0;
  for (int trial = 0; trial < 5000; ++trial) {
    std::string damaged = file.substr(0, trial % 2 == 0 ? file.size() : random() % (file.size() + 1));
    for (uint64_t flips = random() % 3; flips > 0 && !damaged.empty(); --flips) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    const absl::Status status = ParseSafetensorsDataset(damaged, "d").status();
    if (status.ok()) continue;
    ++refused;
    EXPECT_THAT(std::string(status.message()), ::testing::StartsWith("d: "));
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace cotan::training
