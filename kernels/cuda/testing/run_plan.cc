// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/testing/run_plan.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/nvrtc/nvrtc_table.h"
#include "kernels/cuda/sim/device_memory.h"
#include "kernels/cuda/sim/global_memory.h"
#include "kernels/cuda/sim/ptx/interpreter.h"
#include "kernels/cuda/sim/ptx/ptx_parser.h"
#include "kernels/cuda/source/device_library.h"

namespace cotan::cuda::testing {
namespace {

using cotan::testing::HostTensor;

constexpr unsigned kFaultId = 7;
constexpr unsigned kEarlierFault = 3;
constexpr int64_t kErrorRecordBytes = 24;

// Returns the PTX of a kernel. Texts occur many times in one test program.
absl::StatusOr<const std::string*> PtxOf(const KernelSource& source, int compute_capability) {
  static auto& cache = *new absl::flat_hash_map<std::string, std::unique_ptr<std::string>>();
  COTAN_ASSIGN_OR_RETURN(const std::string text, ExpandIncludes(source.text));
  std::unique_ptr<std::string>& ptx = cache[absl::StrCat(compute_capability, text)];
  if (ptx == nullptr) {
    COTAN_ASSIGN_OR_RETURN(std::string compiled, nvrtc::Compile(text, {nvrtc::ImageKind::kPtx, compute_capability}));
    ptx = std::make_unique<std::string>(std::move(compiled));
  }
  return ptx.get();
}

void Add(const ptx::Counters& counters, ptx::Counters& sum) {
  const auto* from = reinterpret_cast<const uint64_t*>(&counters);
  auto* to = reinterpret_cast<uint64_t*>(&sum);
  for (size_t i = 0; i < sizeof(sum) / sizeof(uint64_t); ++i) to[i] += from[i];
}

// The device memory of one run.
class Run {
 public:
  explicit Run(const RunOptions& options)
      : options_(options), memory_({.on_leak = [](absl::string_view) {}}), blocks_(memory_) {}

  absl::Status PlaceOperands(absl::Span<HostTensor* const> inputs, absl::Span<HostTensor* const> outputs) {
    for (HostTensor* tensor : inputs) {
      COTAN_ASSIGN_OR_RETURN(const uint64_t address, AddressOf(*tensor));
      inputs_.push_back(address);
      if (!tensor->bytes().empty()) COTAN_RETURN_IF_ERROR(memory_.Write(address, BytesOf(*tensor)));
    }
    for (HostTensor* tensor : outputs) {
      COTAN_ASSIGN_OR_RETURN(const uint64_t address, AddressOf(*tensor));
      outputs_.push_back(address);
    }
    COTAN_ASSIGN_OR_RETURN(error_record_, memory_.Allocate(kErrorRecordBytes, "error record"));
    std::vector<std::byte> record(kErrorRecordBytes);
    if (options_.failed_before) record[0] = static_cast<std::byte>(kEarlierFault);
    return memory_.Write(error_record_, record);
  }

  absl::Status Execute(const KernelPlan& plan, RunResult& result) {
    if (plan.scratch_bytes > 0) {
      COTAN_ASSIGN_OR_RETURN(scratch_, memory_.Allocate(plan.scratch_bytes, "scratch"));
    }
    for (const PlanStep& step : plan.steps) {
      ++result.launches;
      COTAN_RETURN_IF_ERROR(std::visit([&](const auto& one) { return ExecuteStep(one, result); }, step));
    }
    return RecordedError(plan);
  }

  // Copies the elements of `tensor` back; `is_input`: it was written before.
  absl::Status FetchOutput(HostTensor& tensor, uint64_t address, bool is_input, size_t index) {
    const std::vector<bool> covered = Elements(tensor);
    const absl::Span<const char> bytes = tensor.bytes();
    for (size_t i = 0; i < bytes.size(); ++i) {
      std::byte byte;
      const bool written = memory_.Read(address + i, {&byte, 1}).ok();
      if (covered[i] && !written && !options_.failed_before) {
        return absl::InternalError(absl::StrCat("byte ", i, " of output ", index, " is not written"));
      }
      if (!covered[i] && written && !is_input) {
        return absl::InternalError(absl::StrCat("byte ", i, " of output ", index, ", between elements, is written"));
      }
      if (written) static_cast<std::byte*>(tensor.data())[i] = byte;
    }
    return absl::OkStatus();
  }

  absl::Span<const uint64_t> outputs() const { return outputs_; }

 private:
  static absl::Span<const std::byte> BytesOf(const HostTensor& tensor) {
    return {reinterpret_cast<const std::byte*>(tensor.bytes().data()), tensor.bytes().size()};
  }

  // Returns, for each byte of the tensor's memory, whether it belongs to an element.
  static std::vector<bool> Elements(const HostTensor& tensor) {
    std::vector<bool> covered(tensor.bytes().size());
    const StridedLayout& layout = tensor.layout();
    const auto size = static_cast<int64_t>(ByteSize(tensor.dtype()));
    DimVector index(layout.sizes.size());
    for (int64_t n = tensor.numel(); n > 0; --n) {
      int64_t offset = layout.offset;
      for (size_t d = 0; d < index.size(); ++d) offset += index[d] * layout.strides[d];
      std::fill_n(covered.begin() + offset * size, size, true);
      for (size_t d = index.size(); d-- > 0;) {
        if (++index[d] < layout.sizes[d]) break;
        index[d] = 0;
      }
    }
    return covered;
  }

  absl::StatusOr<uint64_t> AddressOf(const HostTensor& tensor) {
    if (tensor.bytes().empty()) return 0;
    uint64_t& address = addresses_[&tensor];
    if (address == 0) {
      COTAN_ASSIGN_OR_RETURN(address,
                             memory_.Allocate(tensor.bytes().size(), absl::StrCat("operand ", addresses_.size())));
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
        return kFaultId;
    }
    return 0;
  }

  absl::Status ExecuteStep(const KernelLaunch& launch, RunResult& result) {
    COTAN_ASSIGN_OR_RETURN(const std::string* ptx, PtxOf(launch.source, options_.compute_capability));
    COTAN_ASSIGN_OR_RETURN(const ptx::Module module, ptx::ParsePtx(*ptx));
    ptx::SymbolAddresses symbols;
    for (const ptx::Variable& variable : module.variables) {
      COTAN_ASSIGN_OR_RETURN(const uint64_t address, memory_.Allocate(variable.init.size(), variable.name));
      COTAN_RETURN_IF_ERROR(memory_.Write(address, variable.init));
      symbols[variable.name] = address;
    }
    COTAN_ASSIGN_OR_RETURN(const ptx::Program program, ptx::Program::Create(module, launch.source.entry, symbols));
    const std::vector<ptx::Parameter>& parameters = program.kernel->parameters;
    if (parameters.size() != launch.arguments.size()) {
      return absl::InternalError(absl::StrCat(launch.source.entry, " has ", parameters.size(), " parameters, ",
                                              launch.arguments.size(), " are passed"));
    }
    ptx::Launch call = {.grid = launch.grid,
                        .block = launch.block,
                        .dynamic_shared_bytes = launch.dynamic_shared_bytes,
                        .compute_capability = options_.compute_capability,
                        .begins_early = options_.compute_capability >= kFirstToBeginEarly,
                        .multiprocessors = options_.multiprocessors,
                        .seed = options_.seed};
    call.parameters.resize(static_cast<size_t>(program.kernel->parameter_bytes));
    for (size_t i = 0; i < parameters.size(); ++i) {
      const uint64_t value = Resolve(launch.arguments[i]);
      std::memcpy(call.parameters.data() + parameters[i].offset, &value, static_cast<size_t>(parameters[i].size));
    }
    COTAN_ASSIGN_OR_RETURN(const ptx::Counters counters, ptx::Execute(program, call, blocks_));
    Add(counters, result.counters);
    return absl::OkStatus();
  }

  absl::Status ExecuteStep(const MemorySet& set, RunResult&) {
    return memory_.Write(Resolve(set.to), std::vector<std::byte>(static_cast<size_t>(set.bytes), std::byte{set.value}));
  }

  absl::Status ExecuteStep(const MemoryCopy& copy, RunResult&) {
    return memory_.Copy(Resolve(copy.to), Resolve(copy.from), static_cast<uint64_t>(copy.bytes));
  }

  absl::Status ExecuteStep(const LibraryCall&, RunResult&) {
    return absl::UnimplementedError("calls of libraries need a simulated device");
  }

  absl::Status RecordedError(const KernelPlan& plan) {
    struct {
      unsigned op;
      unsigned lock;
      int64_t position;
      int64_t value;
    } record;
    COTAN_RETURN_IF_ERROR(memory_.Read(error_record_, {reinterpret_cast<std::byte*>(&record), sizeof(record)}));
    if (record.op == 0 || options_.failed_before) return absl::OkStatus();
    if (record.op != kFaultId || plan.error_at == nullptr) return absl::InternalError("an error of an unknown op");
    return plan.error_at(record.position, record.value);
  }

  const RunOptions& options_;
  sim::DeviceMemory memory_;
  sim::DeviceGlobalMemory blocks_;
  absl::flat_hash_map<const HostTensor*, uint64_t> addresses_;
  std::vector<uint64_t> inputs_;
  std::vector<uint64_t> outputs_;
  uint64_t scratch_ = 0;
  uint64_t error_record_ = 0;
};

}  // namespace

absl::StatusOr<RunResult> RunPlan(absl::FunctionRef<absl::StatusOr<KernelPlan>(const KernelRequest&)> plan,
                                  const serialization::Op& op, absl::Span<HostTensor* const> inputs,
                                  absl::Span<HostTensor* const> outputs, const RunOptions& options) {
  std::vector<TensorSpec> input_specs;
  std::vector<TensorSpec> output_specs;
  for (const HostTensor* tensor : inputs) input_specs.push_back(tensor->spec());
  for (const HostTensor* tensor : outputs) output_specs.push_back(tensor->spec());
  COTAN_ASSIGN_OR_RETURN(const KernelPlan kernels, plan({.op = op,
                                                         .inputs = input_specs,
                                                         .outputs = output_specs,
                                                         .symbols = options.symbols,
                                                         .guarded_outputs = options.guarded_outputs}));
  Run run(options);
  COTAN_RETURN_IF_ERROR(run.PlaceOperands(inputs, outputs));
  RunResult result;
  COTAN_RETURN_IF_ERROR(run.Execute(kernels, result));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const bool is_input = std::find(inputs.begin(), inputs.end(), outputs[i]) != inputs.end();
    COTAN_RETURN_IF_ERROR(run.FetchOutput(*outputs[i], run.outputs()[i], is_input, i));
  }
  return result;
}

}  // namespace cotan::cuda::testing
