// SPDX-License-Identifier: Apache-2.0

#include "aot/cuda/cuda_flags.h"

#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

serialization::Artifact TwoDimensions() {
  serialization::Artifact artifact;
  for (const char* name : {"batch", "length"}) {
    serialization::SymbolProto& symbol = *artifact.add_symbols();
    symbol.set_name(name);
    symbol.set_min(1);
    symbol.set_max(64);
  }
  return artifact;
}

TEST(CudaFlagsTest, ArchitecturesAreSortedAndUnique) {
  EXPECT_EQ(*ParseCudaArchitectures({"sm_100", "sm_90", "sm_100"}), (std::vector<int>{90, 100}));
  EXPECT_TRUE(ParseCudaArchitectures({})->empty());
}

TEST(CudaFlagsTest, OtherArchitecturesAreRefused) {
  for (const std::string text : {"90", "sm_", "sm_70", "compute_90"}) {
    EXPECT_EQ(ParseCudaArchitectures({text}).status().code(), absl::StatusCode::kInvalidArgument) << text;
  }
}

TEST(CudaFlagsTest, SizesNameDynamicDimensions) {
  const auto sizes = ParseCudaSizes({"batch=8:length=64", "length=3:batch=1"}, TwoDimensions());
  ASSERT_TRUE(sizes.ok()) << sizes.status();
  EXPECT_EQ(*sizes, (std::vector<DimVector>{{8, 64}, {1, 3}}));
}

TEST(CudaFlagsTest, WithoutSizesKernelsAreForTheMaxima) {
  EXPECT_EQ(*ParseCudaSizes({}, TwoDimensions()), (std::vector<DimVector>{{64, 64}}));
  EXPECT_EQ(*ParseCudaSizes({}, serialization::Artifact()), (std::vector<DimVector>{{}}));
}

TEST(CudaFlagsTest, MistakesInSizesAreExplained) {
  const std::pair<std::string, std::string> mistakes[] = {{"batch", "write batch=8"},
                                                          {"batch=x:length=1", "write batch=8"},
                                                          {"batch=8", "'length' has no value"},
                                                          {"batch=8:length=65", "[1, 64]"},
                                                          {"width=1", "no dynamic dimension 'width'"}};
  for (const auto& [text, message] : mistakes) {
    const absl::Status status = ParseCudaSizes({text}, TwoDimensions()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_NE(status.message().find(message), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace cotan::aot
