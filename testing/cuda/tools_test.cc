// SPDX-License-Identifier: Apache-2.0

// Verbs of the tool `cotan` on a simulated GPU.
#include <cstdlib>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/tools/commands.h"
#include "testing/cuda/open_backend.h"

namespace cotan::testing {
namespace {

using ::testing::HasSubstr;

struct Outcome {
  absl::Status status;
  std::string text;
};

Outcome RunTool(const std::vector<std::string>& arguments) {
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  std::ostringstream out;
  const auto open = [](absl::string_view device) -> absl::StatusOr<tools::Backend> {
    COTAN_ASSIGN_OR_RETURN(const Backend backend, OpenBackend(device));
    return tools::Backend{.kernels = backend.kernels, .device = backend.device};
  };
  absl::Status status = tools::RunCommand(pointers, open, out);
  return {std::move(status), out.str()};
}

std::string Model() {
  return absl::StrCat(std::getenv("TEST_SRCDIR"), "/", std::getenv("TEST_WORKSPACE"), "/testing/cuda/mlp.cotan");
}

TEST(CudaToolsTest, VerifyComparesTheDeviceWithTheRecordedRuns) {
  const Outcome outcome = RunTool({"verify", Model(), "--device=cuda_sim"});
  EXPECT_TRUE(outcome.status.ok()) << outcome.status << outcome.text;
  EXPECT_THAT(outcome.text, HasSubstr("train_step"));
}

TEST(CudaToolsTest, RunGoesOnOnTheCpuFromACheckpointOfTheDevice) {
  const std::string half = absl::StrCat(::testing::TempDir(), "/half.safetensors");
  const Outcome on_device = RunTool({"run", Model(), "--steps=2", "--device=cuda_sim", "--save=" + half});
  ASSERT_TRUE(on_device.status.ok()) << on_device.status;
  EXPECT_THAT(on_device.text, HasSubstr("loss"));
  const Outcome rest = RunTool({"run", Model(), "--steps=1", "--threads=1", "--checkpoint=" + half});
  ASSERT_TRUE(rest.status.ok()) << rest.status;
  EXPECT_THAT(rest.text, HasSubstr("loss"));
}

TEST(CudaToolsTest, BenchTimesAMethodOfTheDevice) {
  const Outcome outcome = RunTool({"bench", Model(), "--method=train_step", "--steps=2", "--device=cuda_sim"});
  ASSERT_TRUE(outcome.status.ok()) << outcome.status;
  EXPECT_THAT(outcome.text, HasSubstr("train_step: median "));
}

TEST(CudaToolsTest, AnUnknownDeviceIsRefused) {
  EXPECT_EQ(RunTool({"verify", Model(), "--device=tpu"}).status.code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cotan::testing
