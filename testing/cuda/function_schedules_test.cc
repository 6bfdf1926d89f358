// SPDX-License-Identifier: Apache-2.0

// The compiler knows the schedules of every Function: those of random functions with views, writes and inputs that
// share memory are the ones that the runtime asks for.
#include "aot/cuda/function_schedules.h"

#include <cstdint>
#include <memory>
#include <string>

#include "gtest/gtest.h"
#include "runtime/execution/program.h"
#include "runtime/function/core/function_metadata.h"
#include "testing/conformance/fuzz/generate_program.h"
#include "testing/conformance/harness/compiled_case.h"

namespace cotan::testing {
namespace {

using conformance::ProgramRange;

constexpr uint64_t kPrograms = 150;  // of each range

// Numbers of functions with each kind of request.
struct Counts {
  int functions = 0;
  int save = 0;
  int skip = 0;
  int write_back = 0;
  int donated = 0;
};

bool Uses(const FunctionMetadata& function, ResultUse use) {
  for (const ResultRequest& request : function.requests) {
    if (request.use == use) return true;
  }
  return false;
}

void ExpectThoseOfTheRuntime(const Program& program, Counts& counts) {
  const int method = *program.FindMethod("forward");
  const absl::StatusOr<FunctionMetadata> function = FunctionMetadata::Create(program, method);
  ASSERT_TRUE(function.ok()) << function.status();
  const absl::StatusOr<aot::FunctionSchedules> schedules = aot::SchedulesOfFunction(program.method(method));
  ASSERT_TRUE(schedules.ok()) << schedules.status();
  ASSERT_EQ(schedules->recorded_forward.results.size(), function->requests.size());
  for (size_t i = 0; i < function->requests.size(); ++i) {
    const ResultRequest& expected = function->requests[i];
    const ResultRequest& actual = schedules->recorded_forward.results[i];
    EXPECT_EQ(actual.use, expected.use) << "result " << i;
    if (expected.use == ResultUse::kWriteBack) {
      EXPECT_EQ(actual.input, expected.input) << "result " << i;
    }
    const bool is_saved = expected.use == ResultUse::kSave;
    EXPECT_EQ(schedules->plain_forward.results[i].use, is_saved ? ResultUse::kSkip : expected.use);
  }
  EXPECT_EQ(schedules->donated_backward.donated, function->backward.donated);
  ++counts.functions;
  counts.save += Uses(*function, ResultUse::kSave) ? 1 : 0;
  counts.skip += Uses(*function, ResultUse::kSkip) ? 1 : 0;
  counts.write_back += Uses(*function, ResultUse::kWriteBack) ? 1 : 0;
  counts.donated += function->backward.donated.empty() ? 0 : 1;
}

TEST(FunctionSchedulesTest, SchedulesOfRandomFunctionsAreThoseOfTheRuntime) {
  Counts counts;
  for (const ProgramRange range : {ProgramRange::kPlain, ProgramRange::kWide}) {
    for (uint64_t seed = 1; seed <= kPrograms; ++seed) {
      const conformance::RandomProgram random = conformance::GenerateProgram(seed, range);
      SCOPED_TRACE(conformance::ToText(random));
      const absl::StatusOr<std::string> bytes =
          conformance::CompileCase(conformance::CaseOf(random), /*keep_input_mutations=*/seed % 2 == 0);
      if (!bytes.ok()) continue;  // documented refusals; the conformance tests check them
      const absl::StatusOr<std::shared_ptr<const Program>> program = Program::LoadBytes(*bytes);
      ASSERT_TRUE(program.ok()) << program.status();
      ExpectThoseOfTheRuntime(**program, counts);
    }
  }
  // All kinds of requests occur.
  EXPECT_GT(counts.functions, 200);
  EXPECT_GT(counts.save, 20);
  EXPECT_GT(counts.skip, 5);
  EXPECT_GT(counts.write_back, 20);
  EXPECT_GT(counts.donated, 5);
}

}  // namespace
}  // namespace cotan::testing
