// SPDX-License-Identifier: Apache-2.0

// ptxas compiles every kernel of the models without local memory and within a number of registers.
//
//   model_kernels_test [--all_architectures] ARTIFACT...
//
// The kernels are those that aot/cuda embeds: all methods, all schedules, at the maxima of dynamic dimensions. They are
// too many to compile all in each run of the tests (9 minutes of one core for sm_90 alone), so that COTAN_TEST_SEED
// draws a sample, most of it for sm_90; model_kernels_on_all_architectures_test, which is run by hand, gets all.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "aot/cuda/cuda_flags.h"
#include "aot/cuda/program_kernels.h"
#include "base/status_macros.h"
#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/cuda/compile_gate/compile_gate.h"
#include "kernels/cuda/plan_op.h"
#include "kernels/testing/expr_builder.h"
#include "serialization/container/container.h"

namespace cotan::testing {
namespace {

using cuda::KernelLaunch;
using cuda::KernelResources;
using cuda::KernelSource;

bool all_architectures = false;
std::vector<std::string> artifacts;

constexpr int kMainArchitecture = 90;
constexpr size_t kSampledForMain = 300;  // kernels for kMainArchitecture
constexpr size_t kSampled = 12;          // kernels for each of the other architectures
// Two blocks of 256 threads, or of 128, on a processor with 64 Ki registers.
constexpr int kMaxRegisters = 128;
constexpr int kMaxRegistersOfSmallBlocks = 255;
constexpr int kRegistersOfProcessor = 65536;
// Parts in which the kernels are gated, so that shards share them.
constexpr int kParts = 8;

cuda::ResourceBounds BoundsOf(const KernelLaunch& launch) {
  const int threads = static_cast<int>(launch.block[0] * launch.block[1] * launch.block[2]);
  // Recurrent layers keep weights in all registers of a processor.
  const bool is_alone = absl::StartsWith(launch.source.entry, "recurrent");
  cuda::ResourceBounds bounds = {.registers = threads <= 128 || is_alone ? kMaxRegistersOfSmallBlocks : kMaxRegisters};
  // A block has to start.
  bounds.registers = std::min(bounds.registers, kRegistersOfProcessor / std::max(threads, 32));
  return bounds;
}

struct GatedKernel {
  KernelLaunch launch;
  std::string model;  // the first that has it
};

absl::StatusOr<std::vector<GatedKernel>> KernelsOfModels() {
  std::map<std::string, GatedKernel> by_text;
  for (const std::string& path : artifacts) {
    COTAN_ASSIGN_OR_RETURN(const ArtifactFile file, ArtifactFile::Open(path));
    COTAN_ASSIGN_OR_RETURN(const std::vector<DimVector> sizes, aot::ParseCudaSizes({}, file.artifact()));
    COTAN_ASSIGN_OR_RETURN(std::vector<KernelLaunch> kernels, aot::ProgramKernels(file.artifact(), sizes));
    const size_t known = by_text.size();
    for (KernelLaunch& launch : kernels) {
      const std::string text = launch.source.text;
      by_text.try_emplace(text, GatedKernel{std::move(launch), path.substr(path.rfind('/') + 1)});
    }
    std::printf("%s: %zu kernels, %zu of them new\n", path.c_str(), kernels.size(), by_text.size() - known);
  }
  std::vector<GatedKernel> all;
  for (auto& [text, kernel] : by_text) all.push_back(std::move(kernel));
  return all;
}

struct Job {
  const GatedKernel* kernel;
  int compute_capability;
};

std::vector<Job> JobsFor(const std::vector<GatedKernel>& kernels) {
  std::mt19937_64 random(all_architectures ? 0 : TestSeed());
  std::vector<Job> jobs;
  for (const int compute_capability : cuda::kGateComputeCapabilities) {
    std::vector<const GatedKernel*> chosen;
    for (const GatedKernel& kernel : kernels) chosen.push_back(&kernel);
    if (!all_architectures) {
      std::shuffle(chosen.begin(), chosen.end(), random);
      chosen.resize(std::min(chosen.size(), compute_capability == kMainArchitecture ? kSampledForMain : kSampled));
    }
    for (const GatedKernel* kernel : chosen) jobs.push_back({kernel, compute_capability});
  }
  return jobs;
}

class ModelKernelsTest : public ::testing::TestWithParam<int> {};

TEST_P(ModelKernelsTest, NeedNoLocalMemoryAndFewRegisters) {
  ASSERT_FALSE(artifacts.empty());
  static const auto* const kernels = new absl::StatusOr<std::vector<GatedKernel>>(KernelsOfModels());
  ASSERT_TRUE(kernels->ok()) << kernels->status();
  static const auto* const jobs = new std::vector<Job>(JobsFor(**kernels));
  const auto start = std::chrono::steady_clock::now();
  std::map<std::string, int> registers;  // the most, by kernel
  for (size_t i = static_cast<size_t>(GetParam()); i < jobs->size(); i += kParts) {
    const auto& [kernel, compute_capability] = (*jobs)[i];
    const KernelSource& source = kernel->launch.source;
    const auto resources = CompileForArchitectures(source, {&compute_capability, 1});
    ASSERT_TRUE(resources.ok()) << resources.status();
    const absl::Status status = CheckResources(*resources, BoundsOf(kernel->launch));
    EXPECT_TRUE(status.ok()) << kernel->model << ": " << status << "\n" << source.text;
    for (const KernelResources& compiled : *resources) {
      registers[source.entry] = std::max(registers[source.entry], compiled.registers);
    }
  }
  for (const auto& [entry, most] : registers) std::printf("%s: at most %d registers\n", entry.c_str(), most);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::printf("%zu of %zu compilations in %.0f s\n", jobs->size() / kParts, jobs->size(), seconds.count());
}

INSTANTIATE_TEST_SUITE_P(Parts, ModelKernelsTest, ::testing::Range(0, kParts));

// The toolkit's reduction of arguments beyond 2^31 multiplies by the digits of 2 / pi into an array that it indexes at
// run time: 40 bytes, in local memory. Arguments that are not as large do not reach that code.
constexpr int64_t kLargeReductionBytes = 40;

struct FunctionOfF64 {
  serialization::ScalarFn fn;
  int max_registers;
};
constexpr FunctionOfF64 kTrigonometry[] = {
    {serialization::FN_SIN, 64},
    {serialization::FN_COS, 64},
    {serialization::FN_TAN, 64},
};

TEST(FunctionKernelsTest, TrigonometryOfF64NeedsLocalMemoryForTheReductionOnly) {
  for (const FunctionOfF64& function : kTrigonometry) {
    for (const bool transposes : {false, true}) {
      SCOPED_TRACE(
          absl::StrCat(serialization::ScalarFn_Name(function.fn), transposes ? " of a transposed matrix" : ""));
      const DimVector sizes = {100, 64};
      ExprBuilder b(sizes);
      b.Output(b.Apply(function.fn, {b.Input(0, DType::kFloat64)}));
      const serialization::Op op = b.Build();
      const TensorSpec output = {DType::kFloat64, {sizes, ContiguousStrides(sizes)}};
      TensorSpec input = output;
      if (transposes) input.layout.strides = {1, 100};
      const KernelRequest request = {.op = op, .inputs = {&input, 1}, .outputs = {&output, 1}, .symbols = {}};
      const absl::StatusOr<const cuda::CudaOp*> found = cuda::FindCudaOp(request);
      ASSERT_TRUE(found.ok()) << found.status();
      const absl::StatusOr<cuda::KernelPlan> plan = (*found)->plan(request);
      ASSERT_TRUE(plan.ok()) << plan.status();
      ASSERT_EQ(plan->steps.size(), 1u);
      const auto resources = CompileForArchitectures(std::get<KernelLaunch>(plan->steps[0]).source);
      ASSERT_TRUE(resources.ok()) << resources.status();
      const absl::Status status =
          CheckResources(*resources, {.registers = function.max_registers, .stack_frame = kLargeReductionBytes});
      EXPECT_TRUE(status.ok()) << status;
    }
  }
}

}  // namespace
}  // namespace cotan::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--all_architectures") {
      cotan::testing::all_architectures = true;
    } else {
      cotan::testing::artifacts.push_back(argument);
    }
  }
  return RUN_ALL_TESTS();
}
