// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/machine_rates.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"
#include "base/layout.h"
#include "base/status_macros.h"
#include "kernels/api/device.h"
#include "kernels/api/kernel.h"
#include "serialization/schema/program.pb.h"

namespace cotan::tools {
namespace {

using serialization::Op;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kTimePerCase(12);
constexpr int kMinRuns = 4;

// Bytes that a copy reads and writes: from those of the first cache to those that no cache holds.
constexpr int64_t kCopyBytes[] = {1 << 14, 1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24, 1 << 27};

TensorSpec Spec(DType dtype, const DimVector& sizes, absl::Span<const int64_t> dim_order = {}) {
  return {dtype, {sizes, DenseStrides(sizes, dim_order)}};
}

// An op with the geometry of its operands.
struct Case {
  Op op;
  std::vector<TensorSpec> inputs;
  TensorSpec output;
};

// Returns memory for a tensor, filled with zeros, aligned to 64 bytes within the vector.
class Buffer {
 public:
  explicit Buffer(const TensorSpec& spec)
      : bytes_(static_cast<size_t>(NumElements(spec.layout.sizes)) * ByteSize(spec.dtype) + kAlignment) {}
  void* data() {
    void* data = bytes_.data();
    size_t space = bytes_.size();
    return std::align(kAlignment, 1, data, space);
  }

 private:
  static constexpr size_t kAlignment = 64;
  std::vector<char> bytes_;
};

// Returns the nanoseconds of the fastest of several runs.
absl::StatusOr<double> LeastNs(KernelFactory factory, const Case& c, int threads) {
  COTAN_ASSIGN_OR_RETURN(const std::unique_ptr<Kernel> kernel, factory({c.op, c.inputs, {&c.output, 1}, {}, threads}));
  std::vector<Buffer> buffers;
  buffers.reserve(c.inputs.size() + 1);
  std::vector<void*> inputs;
  for (const TensorSpec& spec : c.inputs) inputs.push_back(buffers.emplace_back(spec).data());
  void* output = buffers.emplace_back(c.output).data();
  std::vector<char> scratch(kernel->scratch_bytes() + 64);
  void* aligned = scratch.data();
  size_t space = scratch.size();
  std::align(64, 1, aligned, space);
  const KernelArgs args = {.inputs = inputs.data(), .outputs = &output, .scratch = aligned};
  COTAN_RETURN_IF_ERROR(kernel->Run(args));
  double least = 0;
  const Clock::time_point start = Clock::now();
  for (int run = 0; run < kMinRuns || Clock::now() - start < kTimePerCase; ++run) {
    const Clock::time_point begin = Clock::now();
    COTAN_RETURN_IF_ERROR(kernel->Run(args));
    const double ns = std::chrono::duration<double, std::nano>(Clock::now() - begin).count();
    least = run == 0 ? ns : std::min(least, ns);
  }
  return least;
}

Case Copy(int64_t bytes) {
  Case c;
  c.op.mutable_copy();
  c.output = Spec(DType::kFloat32, {bytes / 8});
  c.inputs = {c.output};
  return c;
}

Case Product(DType dtype, int64_t m, int64_t n, int64_t k) {
  Case c;
  c.op.mutable_matmul();
  c.inputs = {Spec(dtype, {m, k}), Spec(dtype, {k, n})};
  c.output = Spec(dtype, {m, n});
  return c;
}

// A 3x3 convolution of `channels` channels, channels last. It has a stride of 2, as one without strides may be computed
// with fewer operations than Flops() counts.
Case Convolution(DType dtype, int64_t channels, int64_t size) {
  Case c;
  serialization::Convolution& op = *c.op.mutable_convolution();
  for (int d = 0; d < 2; ++d) {
    op.add_stride(2);
    op.add_padding(1);
    op.add_dilation(1);
    op.add_output_padding(0);
  }
  op.set_groups(1);
  c.inputs = {Spec(dtype, {8, channels, 2 * size, 2 * size}, {0, 2, 3, 1}),
              Spec(dtype, {channels, channels, 3, 3}, {0, 2, 3, 1})};
  c.output = Spec(dtype, {8, channels, size, size}, {0, 2, 3, 1});
  return c;
}

int64_t Flops(const Case& c) {
  const int64_t results = NumElements(c.output.layout.sizes);
  const DimVector& weight = c.inputs[1].layout.sizes;
  return 2 * results * NumElements(weight) / (c.op.has_matmul() ? weight.back() : weight[0]);
}

}  // namespace

absl::StatusOr<MachineRates> MachineRates::Measure(const KernelRegistry& kernels, int threads,
                                                   absl::Span<const DType> dtypes) {
  MachineRates rates;
  const absl::StatusOr<KernelFactory> copy = kernels.Find(DeviceType::kCpu, Op::kCopy, DType::kFloat32);
  for (const int64_t bytes : kCopyBytes) {
    if (!copy.ok()) break;
    COTAN_ASSIGN_OR_RETURN(const double ns, LeastNs(*copy, Copy(bytes), threads));
    rates.copies_.push_back({bytes, static_cast<double>(bytes) / ns});
  }
  for (const DType dtype : dtypes) {
    const Case cases[] = {Product(dtype, 512, 512, 512), Product(dtype, 256, 1024, 256), Product(dtype, 1024, 128, 512),
                          Convolution(dtype, 64, 28), Convolution(dtype, 128, 14)};
    for (const Case& c : cases) {
      const absl::StatusOr<KernelFactory> factory = kernels.Find(DeviceType::kCpu, c.op.kind_case(), dtype);
      if (!factory.ok()) continue;
      COTAN_ASSIGN_OR_RETURN(const double ns, LeastNs(*factory, c, threads));
      double& best = rates.flops_per_ns_[dtype];
      best = std::max(best, static_cast<double>(Flops(c)) / ns);
    }
  }
  return rates;
}

double MachineRates::BoundNs(const OpWork& work, DType dtype) const {
  double ns = 0;
  if (const auto rate = flops_per_ns_.find(dtype); rate != flops_per_ns_.end()) {
    ns += static_cast<double>(work.flops) / rate->second;
  }
  if (copies_.empty()) return ns;
  const auto fits = [&](const CopyRate& copy) { return work.bytes <= copy.bytes; };
  const auto found = std::find_if(copies_.begin(), copies_.end(), fits);
  return ns + static_cast<double>(work.bytes) / (found == copies_.end() ? copies_.back() : *found).bytes_per_ns;
}

std::string MachineRates::ToString() const {
  std::string text;
  for (const auto& [dtype, rate] : flops_per_ns_) {
    absl::StrAppendFormat(&text, "%s %.1f GFLOP/s; ", DTypeName(dtype), rate);
  }
  text += "copies";
  for (const CopyRate& copy : copies_) {
    absl::StrAppendFormat(&text, " %.1f GB/s of %d KiB%s", copy.bytes_per_ns, copy.bytes >> 10,
                          &copy == &copies_.back() ? "" : ",");
  }
  return text;
}

}  // namespace cotan::tools
