// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/matmul/run_matmul.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/nvrtc/nvrtc_table.h"
#include "kernels/cuda/sim/cublaslt/fake_libraries.h"
#include "kernels/cuda/sim/device_memory.h"
#include "kernels/cuda/sim/global_memory.h"
#include "kernels/cuda/sim/ptx/interpreter.h"
#include "kernels/cuda/sim/ptx/ptx_parser.h"
#include "kernels/cuda/source/device_library.h"

namespace cotan::cuda::testing {
namespace {

using cotan::testing::HostTensor;

constexpr int kComputeCapability = 90;
constexpr size_t kErrorRecordBytes = 24;

class Run {
 public:
  explicit Run(const MatmulRunOptions& options)
      : options_(options),
        memory_({.on_leak = [](absl::string_view) {}}),
        global_(memory_),
        libraries_(memory_, options.precision) {}

  absl::Status Place(absl::Span<HostTensor* const> inputs, absl::Span<HostTensor* const> outputs) {
    for (HostTensor* tensor : inputs) {
      COTAN_ASSIGN_OR_RETURN(const uint64_t address, AddressOf(*tensor));
      inputs_.push_back(address);
      const auto* bytes = reinterpret_cast<const std::byte*>(tensor->bytes().data());
      COTAN_RETURN_IF_ERROR(memory_.Write(address, {bytes, tensor->bytes().size()}));
    }
    for (HostTensor* tensor : outputs) {
      COTAN_ASSIGN_OR_RETURN(const uint64_t address, AddressOf(*tensor));
      outputs_.push_back(address);
    }
    COTAN_ASSIGN_OR_RETURN(error_record_, memory_.Allocate(kErrorRecordBytes, "error record"));
    std::vector<std::byte> record(kErrorRecordBytes);
    record[0] = std::byte{options_.failed_before};
    return memory_.Write(error_record_, record);
  }

  absl::Status Execute(const KernelPlan& plan) {
    if (plan.scratch_bytes > 0) {
      COTAN_ASSIGN_OR_RETURN(scratch_, memory_.Allocate(plan.scratch_bytes, "scratch"));
    }
    for (const PlanStep& step : plan.steps) {
      COTAN_RETURN_IF_ERROR(std::visit([&](const auto& one) { return ExecuteStep(one); }, step));
    }
    return absl::OkStatus();
  }

  // Copies the elements of output `index` to `tensor`.
  absl::Status Fetch(size_t index, bool is_input, HostTensor& tensor) {
    const std::vector<bool> covered = Elements(tensor);
    auto* const to = static_cast<std::byte*>(tensor.data());
    for (size_t i = 0; i < covered.size(); ++i) {
      std::byte byte;
      const bool written = memory_.Read(outputs_[index] + i, {&byte, 1}).ok();
      if (covered[i] && !written && !options_.failed_before) {
        return absl::InternalError(absl::StrCat("byte ", i, " of output ", index, " is not written"));
      }
      if (!covered[i] && written && !is_input) {
        return absl::InternalError(absl::StrCat("byte ", i, " of output ", index, ", between elements, is written"));
      }
      if (written) to[i] = byte;
    }
    return absl::OkStatus();
  }

  MatmulRunResult result() {
    result_.num_products = static_cast<int>(libraries_.library().num_products());
    return result_;
  }

 private:
  // Returns, for each byte of the tensor's memory, whether it belongs to an element.
  static std::vector<bool> Elements(const HostTensor& tensor) {
    std::vector<bool> covered(tensor.bytes().size());
    const StridedLayout& layout = tensor.layout();
    const auto size = static_cast<int64_t>(ByteSize(tensor.dtype()));
    for (int64_t i = 0; i < tensor.numel(); ++i) {
      int64_t offset = layout.offset;
      int64_t rest = i;
      for (size_t d = layout.sizes.size(); d-- > 0;) {
        offset += rest % layout.sizes[d] * layout.strides[d];
        rest /= layout.sizes[d];
      }
      std::fill_n(covered.begin() + offset * size, size, true);
    }
    return covered;
  }

  absl::StatusOr<uint64_t> AddressOf(const HostTensor& tensor) {
    if (tensor.bytes().empty()) return 0;
    uint64_t& address = addresses_[&tensor];
    if (address == 0) {
      const uint64_t skipped = static_cast<uint64_t>(options_.misalignment) * ByteSize(tensor.dtype());
      COTAN_ASSIGN_OR_RETURN(
          address, memory_.Allocate(skipped + tensor.bytes().size(), absl::StrCat("operand ", addresses_.size())));
      address += skipped;
    }
    return address;
  }

  uint64_t Resolve(const KernelArgument& argument) const {
    const auto index = static_cast<size_t>(argument.index);
    const auto offset = static_cast<uint64_t>(argument.offset);
    switch (argument.kind) {
      case KernelArgument::Kind::kInput:
        return inputs_[index] + offset;
      case KernelArgument::Kind::kOutput:
        return outputs_[index] + offset;
      case KernelArgument::Kind::kScratch:
        return scratch_ + offset;
      case KernelArgument::Kind::kErrorRecord:
        return error_record_;
      case KernelArgument::Kind::kFaultId:
        break;
    }
    return 1;
  }

  absl::Status ExecuteStep(const KernelLaunch& launch) {
    ++result_.num_kernels;
    COTAN_ASSIGN_OR_RETURN(const std::string text, ExpandIncludes(launch.source.text));
    COTAN_ASSIGN_OR_RETURN(const std::string ptx, nvrtc::Compile(text, {nvrtc::ImageKind::kPtx, kComputeCapability}));
    COTAN_ASSIGN_OR_RETURN(const ptx::Module module, ptx::ParsePtx(ptx));
    COTAN_ASSIGN_OR_RETURN(const ptx::Program program, ptx::Program::Create(module, launch.source.entry, {}));
    const std::vector<ptx::Parameter>& parameters = program.kernel->parameters;
    if (parameters.size() != launch.arguments.size()) return absl::InternalError("the number of arguments is wrong");
    ptx::Launch call = {.grid = launch.grid, .block = launch.block, .compute_capability = kComputeCapability};
    call.parameters.resize(static_cast<size_t>(program.kernel->parameter_bytes));
    for (size_t i = 0; i < parameters.size(); ++i) {
      const uint64_t value = Resolve(launch.arguments[i]);
      std::memcpy(call.parameters.data() + parameters[i].offset, &value, static_cast<size_t>(parameters[i].size));
    }
    return ptx::Execute(program, call, global_).status();
  }

  absl::Status ExecuteStep(const LibraryCall& call) {
    COTAN_ASSIGN_OR_RETURN(const std::unique_ptr<LibraryOperation> operation, call.spec->Prepare(libraries_));
    std::vector<void*> pointers;
    for (const KernelArgument& argument : call.arguments) {
      pointers.push_back(reinterpret_cast<void*>(Resolve(argument)));
    }
    return operation->Enqueue(pointers);
  }

  absl::Status ExecuteStep(const MemorySet& set) {
    return memory_.Write(Resolve(set.to), std::vector<std::byte>(static_cast<size_t>(set.bytes), std::byte{set.value}));
  }

  absl::Status ExecuteStep(const MemoryCopy& copy) {
    return memory_.Copy(Resolve(copy.to), Resolve(copy.from), static_cast<uint64_t>(copy.bytes));
  }

  const MatmulRunOptions& options_;
  sim::DeviceMemory memory_;
  sim::DeviceGlobalMemory global_;
  sim::FakeLibraries libraries_;
  std::map<const HostTensor*, uint64_t> addresses_;
  std::vector<uint64_t> inputs_;
  std::vector<uint64_t> outputs_;
  uint64_t scratch_ = 0;
  uint64_t error_record_ = 0;
  MatmulRunResult result_;
};

}  // namespace

absl::StatusOr<MatmulRunResult> RunMatmul(absl::FunctionRef<absl::StatusOr<KernelPlan>(const KernelRequest&)> plan,
                                          const serialization::Op& op, absl::Span<HostTensor* const> inputs,
                                          absl::Span<HostTensor* const> outputs, const MatmulRunOptions& options) {
  std::vector<TensorSpec> input_specs;
  std::vector<TensorSpec> output_specs;
  for (const HostTensor* tensor : inputs) input_specs.push_back(tensor->spec());
  for (const HostTensor* tensor : outputs) output_specs.push_back(tensor->spec());
  COTAN_ASSIGN_OR_RETURN(const KernelPlan kernels, plan({.op = op,
                                                         .inputs = input_specs,
                                                         .outputs = output_specs,
                                                         .symbols = {},
                                                         .guarded_outputs = options.guarded_outputs}));
  Run run(options);
  COTAN_RETURN_IF_ERROR(run.Place(inputs, outputs));
  COTAN_RETURN_IF_ERROR(run.Execute(kernels));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool is_input = std::find(inputs.begin(), inputs.end(), outputs[i]) != inputs.end();
    COTAN_RETURN_IF_ERROR(run.Fetch(i, is_input, *outputs[i]));
  }
  return run.result();
}

}  // namespace cotan::cuda::testing
