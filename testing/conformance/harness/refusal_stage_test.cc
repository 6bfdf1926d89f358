// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/harness/refusal_stage.h"

#include <optional>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace cotan::conformance {
namespace {

bool Agree(const std::optional<Refusal>& actual, Stage eager) {
  Differences differences;
  CompareRefusals(actual, {eager, absl::FailedPreconditionError("a leaf is written")}, differences);
  return differences.none();
}

TEST(CompareRefusalsTest, CotanMayRefuseBeforeEagerDoes) {
  EXPECT_TRUE(Agree(Refusal{Stage::kCompile, absl::InvalidArgumentError("leaf")}, Stage::kCall));
  EXPECT_TRUE(Agree(Refusal{Stage::kCompile, absl::UnimplementedError("leaf")}, Stage::kBackward));
  EXPECT_TRUE(Agree(Refusal{Stage::kBackward, absl::FailedPreconditionError("leaf")}, Stage::kBackward));
}

TEST(CompareRefusalsTest, CotanMustNotAcceptWhatEagerRefuses) { EXPECT_FALSE(Agree(std::nullopt, Stage::kCall)); }

TEST(CompareRefusalsTest, CotanMustNotRefuseLaterThanEager) {
  EXPECT_FALSE(Agree(Refusal{Stage::kBackward, absl::FailedPreconditionError("leaf")}, Stage::kCall));
}

TEST(CompareRefusalsTest, AFailureToLoadIsNotARefusal) {
  EXPECT_FALSE(Agree(Refusal{Stage::kLoad, absl::InvalidArgumentError("leaf")}, Stage::kCall));
}

TEST(CompareRefusalsTest, AnInternalErrorIsNotARefusal) {
  EXPECT_FALSE(Agree(Refusal{Stage::kCompile, absl::InternalError("the compiler threw")}, Stage::kCall));
  EXPECT_FALSE(Agree(Refusal{Stage::kCompile, absl::UnknownError("?")}, Stage::kCall));
}

}  // namespace
}  // namespace cotan::conformance
