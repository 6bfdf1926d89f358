// SPDX-License-Identifier: Apache-2.0

#include "testing/cuda/kernel_traffic.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/register_cuda.h"
#include "kernels/cuda/sim/statistics.h"

namespace cotan::testing {
namespace {

constexpr int64_t kSectorBytes = 32;

// Factories are functions without context.
cuda::testing::SimDevice* traced_gpu = nullptr;
std::vector<KernelTraffic>* traced_runs = nullptr;

int64_t SectorsIn(int64_t bytes) { return (bytes + kSectorBytes - 1) / kSectorBytes; }

int64_t SectorsOf(const TensorSpec& spec) {
  auto bytes = static_cast<int64_t>(ByteSize(spec.dtype));
  for (int d = 0; d < spec.layout.rank(); ++d) {
    const auto i = static_cast<size_t>(d);
    if (spec.layout.sizes[i] == 0 || spec.layout.strides[i] != 0) bytes *= spec.layout.sizes[i];
  }
  return SectorsIn(bytes);
}

class TracedKernel : public Kernel {
 public:
  TracedKernel(std::unique_ptr<Kernel> kernel, absl::Span<const KernelRequest> requests)
      : kernel_(std::move(kernel)), name_(requests[0].name), kind_(requests[0].op.kind_case()) {
    scratch_bytes_ = kernel_->scratch_bytes();
    for (const KernelRequest& request : requests) {
      for (const TensorSpec& input : request.inputs) inputs_.push_back({&request - requests.data(), SectorsOf(input)});
      for (const TensorSpec& output : request.outputs) output_sectors_ += SectorsOf(output);
    }
  }

  absl::Status Run(const KernelArgs& args) override {
    COTAN_RETURN_IF_ERROR(traced_gpu->device().Synchronize());
    const cuda::sim::Statistics before = traced_gpu->gpu().statistics();
    COTAN_RETURN_IF_ERROR(kernel_->Run(args));
    COTAN_RETURN_IF_ERROR(traced_gpu->device().Synchronize());
    KernelTraffic traffic;
    traffic.name = name_;
    traffic.kind = kind_;
    AddCounters(before, traced_gpu->gpu().statistics(), traffic);
    traffic.operand_sectors = OperandSectors(args, traffic.launches);
    traced_runs->push_back(std::move(traffic));
    return absl::OkStatus();
  }

  bool runs_on_host() const override { return kernel_->runs_on_host(); }

 private:
  static void AddCounters(const cuda::sim::Statistics& before, const cuda::sim::Statistics& after,
                          KernelTraffic& traffic) {
    for (const auto& [entry, kernel] : after.kernels) {
      const auto found = before.kernels.find(entry);
      const cuda::sim::KernelStatistics old =
          found == before.kernels.end() ? cuda::sim::KernelStatistics() : found->second;
      if (kernel.runs == old.runs) continue;
      traffic.launches += kernel.runs - old.runs;
      absl::StrAppend(&traffic.entry, traffic.entry.empty() ? "" : " ", entry);
      const auto sums = [](const cuda::ptx::Counters& counters) {
        return std::pair<uint64_t, uint64_t>(counters.distinct_load_sectors + counters.distinct_store_sectors,
                                             counters.global_load_sectors + counters.global_store_sectors);
      };
      const auto [moved, accessed] = sums(kernel.counters);
      const auto [old_moved, old_accessed] = sums(old.counters);
      traffic.moved_sectors += static_cast<int64_t>(moved - old_moved);
      traffic.accessed_sectors += static_cast<int64_t>(accessed - old_accessed);
    }
  }

  // Launches of a group have inputs of their own.
  int64_t OperandSectors(const KernelArgs& args, int64_t launches) const {
    int64_t sectors = output_sectors_;
    std::set<std::tuple<const void*, int64_t, int64_t>> seen;
    for (size_t i = 0; i < inputs_.size(); ++i) {
      const int64_t request = launches > 1 ? inputs_[i].request : 0;
      if (seen.emplace(args.inputs[i], inputs_[i].sectors, request).second) sectors += inputs_[i].sectors;
    }
    return launches > 1 ? sectors + 2 * SectorsIn(static_cast<int64_t>(scratch_bytes_)) : sectors;
  }

  struct Input {
    int64_t request = 0;  // within a group
    int64_t sectors = 0;
  };
  const std::unique_ptr<Kernel> kernel_;
  const std::string name_;
  const OpKind kind_;
  std::vector<Input> inputs_;
  int64_t output_sectors_ = 0;
};

absl::StatusOr<std::unique_ptr<Kernel>> Prepare(const KernelRequest& request) {
  COTAN_ASSIGN_OR_RETURN(const KernelFactory factory,
                         CudaKernels().Find(DeviceType::kCuda, request.op.kind_case(), request.outputs[0].dtype));
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, factory(request));
  return std::make_unique<TracedKernel>(std::move(kernel), absl::MakeConstSpan(&request, 1));
}

absl::StatusOr<std::unique_ptr<Kernel>> PrepareGroup(absl::Span<const KernelRequest> requests) {
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, CudaKernels().FindGroup(DeviceType::kCuda)(requests));
  return std::make_unique<TracedKernel>(std::move(kernel), requests);
}

}  // namespace

TracedKernels::TracedKernels(cuda::testing::SimDevice* gpu, std::vector<KernelTraffic>* traffic) {
  EXPECT_EQ(traced_gpu, nullptr) << "two TracedKernels at a time";
  traced_gpu = gpu;
  traced_runs = traffic;
  for (const OpKind kind : AllOpKinds()) {
    for (int i = 0; i < kNumDTypes; ++i) {
      const auto dtype = static_cast<DType>(i);
      if (!CudaKernels().Find(DeviceType::kCuda, kind, dtype).ok()) continue;
      const absl::Status status = registry_.Register(DeviceType::kCuda, kind, dtype, Prepare);
      EXPECT_TRUE(status.ok()) << status;
    }
  }
  const absl::Status status = registry_.RegisterGroup(DeviceType::kCuda, PrepareGroup);
  EXPECT_TRUE(status.ok()) << status;
}

TracedKernels::~TracedKernels() { traced_gpu = nullptr; }

}  // namespace cotan::testing
