// SPDX-License-Identifier: Apache-2.0

// All ops with all dtypes on a simulated GPU: results are those of the reference, whatever the order of blocks.
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "kernels/cuda/register_cuda.h"
#include "serialization/schema/op_kind.h"
#include "testing/cuda/kernel_run.h"
#include "testing/cuda/tool_device.h"

namespace cotan::testing {
namespace {

std::optional<ToolDevice> OpenSimulated(uint64_t seed) {
  absl::StatusOr<ToolDevice> device = ToolDevice::Open(
      {.name = "cuda_sim", .seed = seed, .kernel_cache = absl::StrCat(std::getenv("TEST_TMPDIR"), "/kernels")});
  EXPECT_TRUE(device.ok()) << device.status();
  if (!device.ok()) return std::nullopt;
  return *std::move(device);
}

TEST(KernelCasesTest, NamesAreUniqueAndEveryKernelOfTheBackendHasACase) {
  std::set<std::string> names;
  std::set<std::pair<OpKind, DType>> covered;
  for (const KernelCase& c : AllKernelCases()) {
    EXPECT_TRUE(names.insert(c.name).second) << c.name;
    covered.insert({c.op.kind_case(), c.outputs[0].dtype});
  }
  for (const OpKind kind : AllOpKinds()) {
    for (int dtype = 1; dtype < kNumDTypes; ++dtype) {
      if (!CudaKernels().Find(DeviceType::kCuda, kind, static_cast<DType>(dtype)).ok()) continue;
      EXPECT_TRUE(covered.contains({kind, static_cast<DType>(dtype)}))
          << OpKindName(kind) << " of " << DTypeName(static_cast<DType>(dtype));
    }
  }
}

TEST(KernelCasesTest, CasesAreTheSameEachTime) {
  const std::vector<KernelCase> first = AllKernelCases(), second = AllKernelCases();
  ASSERT_EQ(first.size(), second.size());
  for (size_t i = 0; i < first.size(); ++i) {
    ASSERT_EQ(first[i].op.SerializeAsString(), second[i].op.SerializeAsString()) << first[i].name;
    for (size_t k = 0; k < first[i].inputs.size(); ++k) {
      ASSERT_EQ(first[i].inputs[k].bytes(), second[i].inputs[k].bytes()) << first[i].name;
    }
  }
}

class KernelOutputsTest : public ::testing::TestWithParam<int> {};

constexpr int kParts = 8;

TEST_P(KernelOutputsTest, EqualTheReferenceInAnyOrderOfBlocks) {
  const std::vector<KernelCase> cases = AllKernelCases();
  std::optional<ToolDevice> in_order = OpenSimulated(0), shuffled = OpenSimulated(7);
  ASSERT_TRUE(in_order.has_value() && shuffled.has_value());
  for (size_t i = static_cast<size_t>(GetParam()); i < cases.size(); i += kParts) {
    const KernelCase& c = cases[i];
    const auto first = RunOnDevice(in_order->kernels(), in_order->device(), c);
    ASSERT_TRUE(first.ok()) << c.name << ": " << first.status();
    const auto second = RunOnDevice(shuffled->kernels(), shuffled->device(), c);
    ASSERT_TRUE(second.ok()) << c.name << ": " << second.status();
    for (size_t k = 0; k < first->size(); ++k) EXPECT_EQ((*first)[k].bytes(), (*second)[k].bytes()) << c.name;
    const absl::StatusOr<double> error = ErrorAgainstReference(c, *first);
    ASSERT_TRUE(error.ok()) << c.name << ": " << error.status();
    EXPECT_LE(*error, c.tolerance) << c.name;
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, KernelOutputsTest, ::testing::Range(0, kParts));

StoredOutput Floats(std::vector<float> values) {
  return {.name = "x",
          .dtype = DType::kFloat32,
          .bytes = std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float))};
}

TEST(StoredOutputsTest, AreReadAsTheyWereWritten) {
  const std::vector<StoredOutput> written = {
      Floats({1, 2, 3}),
      {.name = "empty", .dtype = DType::kBool, .same_bits = false, .tolerance = 0.5, .bytes = ""},
      {.name = "lines", .dtype = DType::kInt8, .tolerance = 64, .bytes = "\n\n1\n"}};
  const std::string path = absl::StrCat(std::getenv("TEST_TMPDIR"), "/outputs.bin");
  std::ofstream out(path, std::ios::binary);
  for (const StoredOutput& output : written) WriteOutput(output, out);
  out.close();
  const absl::StatusOr<std::vector<StoredOutput>> read = ReadOutputs(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(*read, written);
  std::ofstream(path, std::ios::binary | std::ios::app) << "more";
  EXPECT_EQ(ReadOutputs(path).status().code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(ReadOutputs(path + "_missing").status().code(), absl::StatusCode::kNotFound);
}

TEST(StoredOutputsTest, DistancesAreCountedInRepresentableValues) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  const OutputDifference same = *CompareOutputs(Floats({1, kNan}), Floats({1, -kNan}));
  EXPECT_EQ(same.elements, 2);
  EXPECT_EQ(same.differing, 0);
  const OutputDifference near = *CompareOutputs(Floats({1, 2, 0.0f}), Floats({1.00000024f, 2, -0.0f}));
  EXPECT_EQ(near.differing, 2);
  EXPECT_EQ(near.max_ulp, 2);
  EXPECT_EQ(near.units, 1);  // of eps times the largest value
  const OutputDifference far = *CompareOutputs(Floats({1, 2}), Floats({kNan, 2}));
  EXPECT_EQ(far.differing, 1);
  EXPECT_EQ(far.max_ulp, std::numeric_limits<double>::infinity());
  EXPECT_EQ(CompareOutputs(Floats({1}), Floats({1, 2})).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cotan::testing
