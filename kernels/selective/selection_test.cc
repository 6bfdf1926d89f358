// SPDX-License-Identifier: Apache-2.0

#include "kernels/selective/selection.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::selective {
namespace {

using serialization::Artifact;
using serialization::LinearAlgebra;
using serialization::Op;
using ::testing::HasSubstr;
using ::testing::Not;

// Returns an artifact of one op with one output.
Artifact ArtifactOf(const Op& op, DType dtype) {
  Artifact artifact;
  serialization::Method& method = *artifact.add_methods();
  method.add_values()->mutable_type()->set_dtype(static_cast<serialization::DTypeProto>(dtype));
  *method.add_ops() = op;
  method.mutable_ops(0)->add_outputs(0);
  return artifact;
}

TEST(SelectionTest, DecompositionsAreLinkedForProgramsThatHaveThem) {
  Op eigh, sort;
  eigh.mutable_linear_algebra()->set_function(LinearAlgebra::EIGH);
  sort.mutable_sort();
  Selection with, without;
  AddArtifact(ArtifactOf(eigh, DType::kFloat64), with);
  AddArtifact(ArtifactOf(sort, DType::kFloat64), without);
  const absl::StatusOr<std::string> source = KernelSource(with, "//:net_runtime");
  ASSERT_TRUE(source.ok()) << source.status();
  EXPECT_THAT(*source, HasSubstr("{Op::kLinearAlgebra, DType::kFloat64, cpu::MakeLinearAlgebra},"));
  const absl::StatusOr<std::string> other = KernelSource(without, "//:net_runtime");
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_THAT(*other, Not(HasSubstr("MakeLinearAlgebra")));
}

}  // namespace
}  // namespace cotan::selective
