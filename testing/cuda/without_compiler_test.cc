// SPDX-License-Identifier: Apache-2.0

// A machine without NVRTC: programs train with the kernels that were compiled with them, others are refused.
#include <dlfcn.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/register_cpu.h"
#include "kernels/cuda/device/cuda_device.h"
#include "kernels/cuda/nvrtc/nvrtc_table.h"
#include "kernels/cuda/register_cuda.h"
#include "kernels/cuda/sim/sim_gpu.h"
#include "runtime/execution/program.h"
#include "runtime/session.h"
#include "runtime/tools/references.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

using ::testing::HasSubstr;

std::string RunfileOf(const std::string& file) {
  return absl::StrCat(std::getenv("TEST_SRCDIR"), "/", std::getenv("TEST_WORKSPACE"), "/testing/cuda/", file);
}

class WithoutCompilerTest : public ::testing::Test {
 protected:
  // A library with the name of NVRTC's and no functions: dlopen() finds it by the name, whatever is installed.
  static void SetUpTestSuite() {
    ASSERT_NE(dlopen(RunfileOf("libnvrtc_without_functions.so").c_str(), RTLD_NOW | RTLD_GLOBAL), nullptr) << dlerror();
    ASSERT_EQ(cuda::nvrtc::NvrtcTable::Get().status().code(), absl::StatusCode::kUnavailable);
  }

  void SetUp() override {
    cuda::Vendor vendor;
    vendor.driver = &gpu_.table();
    vendor.executes_ptx = true;
    vendor.make_cublaslt = [](cuda::VendorLibraries&) -> absl::StatusOr<std::shared_ptr<cuda::CublasLt>> {
      return absl::UnavailableError("not linked");
    };
    auto device = cuda::CudaDevice::Create(vendor, {});
    ASSERT_TRUE(device.ok()) << device.status();
    device_ = *std::move(device);
  }

  // Returns the losses of two training steps with the recorded arguments.
  static absl::StatusOr<std::vector<float>> Train(const std::string& artifact, const KernelRegistry& kernels,
                                                  Device* device) {
    COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> program,
                           Program::Load(RunfileOf(artifact), RecordedRuns::kMap));
    COTAN_ASSIGN_OR_RETURN(Session session,
                           Session::Create(program, {.kernels = &kernels, .device = device, .threads = 1}));
    COTAN_ASSIGN_OR_RETURN(const serialization::Reference* reference, tools::FindReference(*program, "train_step"));
    COTAN_ASSIGN_OR_RETURN(const std::vector<Tensor> arguments,
                           tools::LoadArguments(*program, *reference, HostDevice()));
    std::vector<float> losses;
    for (int i = 0; i < 2; ++i) {
      COTAN_ASSIGN_OR_RETURN(const std::vector<Tensor> results, session.Run("train_step", arguments));
      COTAN_ASSIGN_OR_RETURN(const float loss, results.back().Item<float>());
      losses.push_back(loss);
    }
    return losses;
  }

  cuda::sim::SimGpu gpu_{{.check_unwritten_copies = false}};
  std::unique_ptr<cuda::CudaDevice> device_;  // last, so that it goes first
};

TEST_F(WithoutCompilerTest, AProgramWithItsKernelsTrains) {
  const auto losses = Train("mlp_sm_90.cotan", CudaKernels(), device_.get());
  ASSERT_TRUE(losses.ok()) << losses.status();
  EXPECT_EQ(device_->kernels().statistics().compiled, 0);
  EXPECT_GT(device_->kernels().statistics().from_images, 0);
  EXPECT_LE(ErrorInEps<float>(*losses, *Train("mlp_sm_90.cotan", CpuKernels(), nullptr)), kModelLoss);
}

TEST_F(WithoutCompilerTest, AProgramWithoutThemIsRefusedByTheNameOfTheFlag) {
  const absl::Status status = Train("mlp.cotan", CudaKernels(), device_.get()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("Compile the model with --cuda_arch=sm_90."));
}

}  // namespace
}  // namespace cotan::testing
