// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "absl/strings/str_cat.h"
#include "aot/frontend/pt2/archive_builder.h"

namespace cotan::aot::pt2 {
namespace {

using ::testing::HasSubstr;

// Returns a table entry for one tensor.
std::string Entry(const std::string& name, int dtype, const std::string& sizes, const std::string& strides,
                  int offset) {
  return absl::StrCat(
      "\"", name, R"(": {"path_name": "weight_0", "is_param": true, "use_pickle": false, "tensor_meta": {"dtype": )",
      dtype, R"(, "sizes": [)", sizes, R"(], "requires_grad": false, "device": {"type": "cpu", "index": null},)",
      R"( "strides": [)", strides, R"(], "storage_offset": {"as_int": )", offset, R"(}, "layout": 7}})");
}

absl::StatusOr<StoredTensors> Load(const std::string& entries, const std::string& bytes) {
  const auto archive = Archive::Open(
      WriteArchive("weights.pt2", {{"m/w/config", "{\"config\": {" + entries + "}}"}, {"m/w/weight_0", bytes}}));
  EXPECT_TRUE(archive.ok()) << archive.status();
  return LoadStoredTensors(*archive, "w/", "w/config");
}

TEST(WeightsTest, ReadsStridedTensorsOfOneFile) {
  std::string bytes;
  for (char i = 0; i < 6; ++i) bytes.push_back(i);
  const auto tensors = Load(Entry("a", 2, R"({"as_int": 2}, {"as_int": 3})", R"({"as_int": 1}, {"as_int": 2})", 0) +
                                ", " + Entry("b", 2, R"({"as_int": 2})", R"({"as_int": 1})", 4),
                            bytes);
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  const at::Tensor a = tensors->at("a").tensor;
  const at::Tensor b = tensors->at("b").tensor;
  EXPECT_TRUE(a.equal(torch::tensor({{0, 2, 4}, {1, 3, 5}}, torch::kChar)));
  EXPECT_TRUE(b.equal(torch::tensor({4, 5}, torch::kChar)));
  EXPECT_TRUE(a.is_alias_of(b));
}

TEST(WeightsTest, ReadsEmptyTensorsAndScalars) {
  const auto tensors = Load(Entry("scalar", 5, "", "", 0), std::string(8, '\0'));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(tensors->at("scalar").tensor.dim(), 0);
  const auto empty = Load(Entry("empty", 5, R"({"as_int": 0})", R"({"as_int": 1})", 0), "");
  ASSERT_TRUE(empty.ok()) << empty.status();
  EXPECT_EQ(empty->at("empty").tensor.numel(), 0);
}

TEST(WeightsTest, RefusesTensorsBeyondTheirFile) {
  for (const std::string& entry : {Entry("w", 7, R"({"as_int": 3})", R"({"as_int": 1})", 0),
                                   Entry("w", 7, R"({"as_int": 2})", R"({"as_int": 1})", 1),
                                   Entry("w", 7, R"({"as_int": 2})", R"({"as_int": 9223372036854775807})", 0),
                                   Entry("w", 7, R"({"as_int": 2})", R"({"as_int": 2})", 0)}) {
    const absl::Status status = Load(entry, std::string(8, '\0')).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << entry;
    EXPECT_THAT(std::string(status.message()), HasSubstr("in a file of 2 elements"));
  }
}

TEST(WeightsTest, RefusesOneFileWithTwoDtypes) {
  const absl::Status status =
      Load(Entry("a", 7, "", "", 0) + ", " + Entry("b", 4, "", "", 0), std::string(8, '\0')).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("two dtypes"));
}

}  // namespace
}  // namespace cotan::aot::pt2
