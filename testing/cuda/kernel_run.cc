// SPDX-License-Identifier: Apache-2.0

#include "testing/cuda/kernel_run.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <limits>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/reference/element.h"
#include "kernels/reference/register_reference.h"
#include "kernels/testing/random_case.h"

namespace cotan::testing {
namespace {

constexpr char kMagic[] = "cotan kernel outputs 1";

// Device memory with a copy of host bytes.
class DeviceBlock {
 public:
  static absl::StatusOr<DeviceBlock> Create(Device& device, absl::Span<const char> bytes) {
    const size_t size = std::max<size_t>(bytes.size(), 1);
    COTAN_ASSIGN_OR_RETURN(void* const address, device.Allocate(size));
    DeviceBlock block(device, address, size);
    COTAN_RETURN_IF_ERROR(block.Fill(bytes));
    return block;
  }
  static absl::StatusOr<DeviceBlock> Uninitialized(Device& device, size_t bytes) {
    COTAN_ASSIGN_OR_RETURN(void* const address, device.Allocate(bytes));
    return DeviceBlock(device, address, bytes);
  }
  DeviceBlock(DeviceBlock&& other) noexcept
      : device_(other.device_), address_(std::exchange(other.address_, nullptr)), size_(other.size_) {}
  DeviceBlock& operator=(DeviceBlock&&) = delete;
  ~DeviceBlock() { device_.Free(address_, size_); }

  absl::Status Fill(absl::Span<const char> bytes) {
    return bytes.empty() ? absl::OkStatus() : device_.CopyFromHost(address_, bytes.data(), bytes.size());
  }
  absl::Status Read(HostTensor& to) const {
    return to.bytes().empty() ? absl::OkStatus() : device_.CopyToHost(to.data(), address_, to.bytes().size());
  }
  void* address() const { return address_; }

 private:
  DeviceBlock(Device& device, void* address, size_t size) : device_(device), address_(address), size_(size) {}

  Device& device_;
  void* address_;
  size_t size_;
};

// The prepared kernel of a case with its memory.
class PreparedCase {
 public:
  explicit PreparedCase(Device& device) : device_(device) {}

  absl::Status Prepare(const KernelRegistry& kernels, const KernelCase& c) {
    std::vector<TensorSpec> inputs;
    for (const HostTensor& tensor : c.inputs) {
      inputs.push_back(tensor.spec());
      COTAN_RETURN_IF_ERROR(AddBlock(tensor.bytes(), input_addresses_));
    }
    for (const TensorSpec& spec : c.outputs) {
      fresh_.emplace_back(spec.dtype, spec.layout);
      COTAN_RETURN_IF_ERROR(AddBlock(fresh_.back().bytes(), output_addresses_));
    }
    COTAN_ASSIGN_OR_RETURN(const KernelFactory factory,
                           kernels.Find(device_.type(), c.op.kind_case(), c.outputs[0].dtype));
    COTAN_ASSIGN_OR_RETURN(
        kernel_,
        factory(
            {.op = c.op, .inputs = inputs, .outputs = c.outputs, .symbols = {}, .device = &device_, .name = c.name}));
    // The scratch stays unwritten, so that a checker of memory notices what reads it first.
    COTAN_ASSIGN_OR_RETURN(DeviceBlock scratch,
                           DeviceBlock::Uninitialized(device_, std::max<size_t>(kernel_->scratch_bytes(), 64)));
    args_ = {input_addresses_.data(), output_addresses_.data(), scratch.address()};
    blocks_.push_back(std::move(scratch));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<HostTensor>> Run() {
    return RunAndRead([&] { return kernel_->Run(args_); });
  }

  // Returns no tensors if the kernel cannot be recorded.
  absl::StatusOr<std::vector<HostTensor>> RunRecorded() {
    if (kernel_->runs_on_host()) return std::vector<HostTensor>();
    COTAN_ASSIGN_OR_RETURN(const std::unique_ptr<RecordedWork> work,
                           device_.Record([&] { return kernel_->Run(args_); }));
    if (work == nullptr) return std::vector<HostTensor>();
    return RunAndRead([&] { return work->Run(); });
  }

 private:
  absl::Status AddBlock(absl::Span<const char> bytes, std::vector<void*>& addresses) {
    COTAN_ASSIGN_OR_RETURN(DeviceBlock block, DeviceBlock::Create(device_, bytes));
    addresses.push_back(block.address());
    blocks_.push_back(std::move(block));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<HostTensor>> RunAndRead(absl::FunctionRef<absl::Status()> run) {
    std::vector<HostTensor> outputs = fresh_;
    const size_t first = input_addresses_.size();
    for (size_t i = 0; i < outputs.size(); ++i) COTAN_RETURN_IF_ERROR(blocks_[first + i].Fill(outputs[i].bytes()));
    COTAN_RETURN_IF_ERROR(run());
    COTAN_RETURN_IF_ERROR(device_.Synchronize());
    for (size_t i = 0; i < outputs.size(); ++i) {
      COTAN_RETURN_IF_ERROR(blocks_[first + i].Read(outputs[i]));
      if (IsComplex(outputs[i].dtype()) || GapsAreUntouched(outputs[i])) continue;
      return absl::InternalError(absl::StrCat("output ", i, ": a byte between elements is written"));
    }
    return outputs;
  }

  Device& device_;
  std::vector<DeviceBlock> blocks_;  // inputs, outputs, scratch
  std::vector<void*> input_addresses_, output_addresses_;
  std::vector<HostTensor> fresh_;  // outputs as they are before the kernel runs
  std::unique_ptr<Kernel> kernel_;
  KernelArgs args_;
};

const KernelRegistry& ReferenceKernels() {
  static const KernelRegistry& registry = *[] {
    auto* kernels = new KernelRegistry;
    // It fails only if a kernel is registered twice.
    RegisterReferenceKernels(*kernels).IgnoreError();
    return kernels;
  }();
  return registry;
}

// A tensor of complex numbers as one of pairs of integers: the reference copies those.
TensorSpec AsIntegers(const TensorSpec& spec) {
  const int64_t parts = spec.dtype == DType::kComplex64 ? 1 : 2;
  TensorSpec result = {DType::kInt64, spec.layout};
  for (int64_t& stride : result.layout.strides) stride *= parts;
  result.layout.sizes.push_back(parts);
  result.layout.strides.push_back(1);
  return result;
}

HostTensor AsIntegers(const HostTensor& tensor) {
  if (!IsComplex(tensor.dtype())) return tensor;
  const TensorSpec spec = AsIntegers(tensor.spec());
  HostTensor result(spec.dtype, spec.layout);
  if (!tensor.bytes().empty()) std::memcpy(result.data(), tensor.bytes().data(), tensor.bytes().size());
  return result;
}

// Orders floats as their values, so that neighbours differ by one.
int64_t Rank(DType dtype, const char* bytes) {
  const size_t size = ByteSize(dtype);
  uint64_t bits = 0;
  std::memcpy(&bits, bytes, size);
  const uint64_t sign = uint64_t{1} << (8 * size - 1);
  return (bits & sign) != 0 ? -static_cast<int64_t>(bits & (sign - 1)) : static_cast<int64_t>(bits);
}

double ValueAt(DType dtype, const char* bytes) {
  const reference::Scalar value = reference::Load(dtype, bytes, 0);
  return IsFloatingPoint(dtype) ? value.f : static_cast<double>(value.i);
}

}  // namespace

absl::StatusOr<std::vector<HostTensor>> RunOnDevice(const KernelRegistry& kernels, Device& device,
                                                    const KernelCase& kernel_case) {
  PreparedCase prepared(device);
  COTAN_RETURN_IF_ERROR(prepared.Prepare(kernels, kernel_case));
  COTAN_ASSIGN_OR_RETURN(std::vector<HostTensor> queued, prepared.Run());
  COTAN_ASSIGN_OR_RETURN(const std::vector<HostTensor> recorded, prepared.RunRecorded());
  for (size_t i = 0; i < recorded.size(); ++i) {
    if (recorded[i].bytes() == queued[i].bytes()) continue;
    return absl::InternalError(absl::StrCat("output ", i, ": the recorded run differs from the queued one"));
  }
  return queued;
}

absl::StatusOr<double> ErrorAgainstReference(const KernelCase& kernel_case, const std::vector<HostTensor>& outputs) {
  std::vector<HostTensor> inputs, expected, actual;
  for (const HostTensor& tensor : kernel_case.inputs) inputs.push_back(AsIntegers(tensor));
  for (const HostTensor& tensor : outputs) {
    actual.push_back(AsIntegers(tensor));
    expected.emplace_back(actual.back().dtype(), actual.back().layout());
  }
  std::vector<HostTensor*> in, out;
  for (HostTensor& tensor : inputs) in.push_back(&tensor);
  for (HostTensor& tensor : expected) out.push_back(&tensor);
  COTAN_ASSIGN_OR_RETURN(const KernelFactory factory,
                         ReferenceKernels().Find(DeviceType::kCpu, kernel_case.op.kind_case(), expected[0].dtype()));
  COTAN_RETURN_IF_ERROR(RunOp(factory, kernel_case.op, in, out));
  double error = 0;
  for (size_t i = 0; i < actual.size(); ++i) error = std::max(error, ErrorInUnits(actual[i], expected[i].Values()));
  return error;
}

std::vector<StoredOutput> ToStored(const KernelCase& kernel_case, const std::vector<HostTensor>& outputs) {
  std::vector<StoredOutput> stored;
  for (size_t i = 0; i < outputs.size(); ++i) {
    stored.push_back({.name = absl::StrCat(kernel_case.name, ":", i),
                      .dtype = outputs[i].dtype(),
                      .same_bits = kernel_case.same_bits,
                      .tolerance = kernel_case.tolerance,
                      .bytes = std::string(outputs[i].bytes().data(), outputs[i].bytes().size())});
  }
  return stored;
}

void WriteOutput(const StoredOutput& output, std::ostream& out) {
  out << kMagic << "\n"
      << output.name << " " << DTypeName(output.dtype) << " " << output.same_bits << " " << output.tolerance << " "
      << output.bytes.size() << "\n"
      << output.bytes << "\n";
}

absl::StatusOr<std::vector<StoredOutput>> ReadOutputs(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::NotFoundError(absl::StrCat("cannot open ", path));
  const auto damaged = [&] { return absl::DataLossError(absl::StrCat(path, " is not a file of kernel outputs")); };
  std::vector<StoredOutput> outputs;
  std::string line, dtype;
  while (std::getline(in, line)) {
    StoredOutput& output = outputs.emplace_back();
    size_t bytes = 0;
    if (line != kMagic) return damaged();
    if (!(in >> output.name >> dtype >> output.same_bits >> output.tolerance >> bytes)) return damaged();
    COTAN_ASSIGN_OR_RETURN(output.dtype, ParseDType(dtype));
    if (in.get() != '\n' || bytes > (size_t{1} << 30)) return damaged();
    output.bytes.resize(bytes);
    if (!in.read(output.bytes.data(), static_cast<std::streamsize>(bytes)) || in.get() != '\n') return damaged();
  }
  return outputs;
}

absl::StatusOr<OutputDifference> CompareOutputs(const StoredOutput& a, const StoredOutput& b) {
  if (a.dtype != b.dtype || a.bytes.size() != b.bytes.size()) {
    return absl::InvalidArgumentError(absl::StrCat(a.name, ": ", DTypeName(a.dtype), " of ", a.bytes.size(),
                                                   " bytes and ", DTypeName(b.dtype), " of ", b.bytes.size()));
  }
  // The numbers of a complex element are compared as the halves of its bits.
  const DType dtype = IsComplex(a.dtype) ? DType::kInt64 : a.dtype;
  const size_t size = ByteSize(dtype);
  OutputDifference result;
  double largest = 1, difference = 0;
  for (size_t at = 0; at + size <= a.bytes.size(); at += size) {
    const char* x = a.bytes.data() + at;
    const char* y = b.bytes.data() + at;
    ++result.elements;
    const double u = ValueAt(dtype, x), v = ValueAt(dtype, y);
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
    if (std::memcmp(x, y, size) == 0 || (std::isnan(u) && std::isnan(v))) continue;
    ++result.differing;
    const bool is_float = IsFloatingPoint(dtype);
    const double ulp = is_float ? std::abs(static_cast<double>(Rank(dtype, x)) - static_cast<double>(Rank(dtype, y)))
                                : std::abs(u - v);
    result.max_ulp =
        std::isnan(u) || std::isnan(v) ? std::numeric_limits<double>::infinity() : std::max(result.max_ulp, ulp);
    if (u == v) continue;  // zeros of both signs
    const double distance = std::abs(u - v);
    difference = std::isfinite(distance) ? std::max(difference, distance) : std::numeric_limits<double>::infinity();
  }
  if (difference > 0) result.units = difference / (Epsilon(dtype) * largest);
  return result;
}

}  // namespace cotan::testing
