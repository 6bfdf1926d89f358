// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/onednn/primitive.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "kernels/cpu/threading/parallel.h"

namespace cotan::cpu::onednn {
namespace {

// Runs a primitive on memory objects that are created once; only their data pointers change from run to run.
class PrimitiveKernel final : public Kernel {
 public:
  static absl::StatusOr<std::unique_ptr<Kernel>> Create(const_dnnl_primitive_desc_t desc,
                                                        const std::vector<Argument>& inputs,
                                                        const std::vector<Argument>& outputs) {
    COTAN_ASSIGN_OR_RETURN(const dnnl_engine_t engine, CpuEngine());
    auto kernel = std::make_unique<PrimitiveKernel>();
    dnnl_stream_t stream = nullptr;
    COTAN_RETURN_IF_DNNL_ERROR(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    kernel->stream_.reset(stream);
    dnnl_primitive_t primitive = nullptr;
    COTAN_RETURN_IF_DNNL_ERROR(dnnl_primitive_create(&primitive, desc));
    kernel->primitive_.reset(primitive);
    for (const Argument& input : inputs) COTAN_RETURN_IF_ERROR(kernel->AddArgument(engine, input));
    kernel->num_inputs_ = inputs.size();
    for (const Argument& output : outputs) COTAN_RETURN_IF_ERROR(kernel->AddArgument(engine, output));
    COTAN_ASSIGN_OR_RETURN(const MemoryLayout scratchpad, ChosenMemory(desc, dnnl_query_scratchpad_md));
    kernel->scratch_bytes_ = scratchpad.bytes();
    kernel->threads_ = DefaultThreads();
    COTAN_RETURN_IF_ERROR(kernel->AddArgument(engine, {DNNL_ARG_SCRATCHPAD, scratchpad}));
    return kernel;
  }

  absl::Status Run(const KernelArgs& args) override {
    const size_t operands = memories_.size() - 1;
    for (size_t i = 0; i < num_inputs_; ++i) COTAN_RETURN_IF_ERROR(SetData(i, args.inputs[i]));
    for (size_t i = num_inputs_; i < operands; ++i) COTAN_RETURN_IF_ERROR(SetData(i, args.outputs[i - num_inputs_]));
    COTAN_RETURN_IF_ERROR(SetData(operands, args.scratch));
    const ScopedTeamMode team_mode(threads_);
    COTAN_RETURN_IF_DNNL_ERROR(dnnl_primitive_execute(primitive_.get(), stream_.get(),
                                                      static_cast<int>(arguments_.size()), arguments_.data()));
    return absl::OkStatus();
  }

 private:
  absl::Status AddArgument(dnnl_engine_t engine, const Argument& argument) {
    dnnl_memory_t memory = nullptr;
    COTAN_RETURN_IF_DNNL_ERROR(dnnl_memory_create(&memory, argument.memory.handle(), engine, DNNL_MEMORY_NONE));
    memories_.emplace_back(memory);
    arguments_.push_back({argument.argument, memory});
    return absl::OkStatus();
  }

  absl::Status SetData(size_t i, void* data) {
    COTAN_RETURN_IF_DNNL_ERROR(dnnl_memory_set_data_handle(memories_[i].get(), data));
    return absl::OkStatus();
  }

  Owned<dnnl_stream> stream_;
  Owned<dnnl_primitive> primitive_;
  std::vector<Owned<dnnl_memory>> memories_;  // of the inputs, the outputs and the scratchpad
  std::vector<dnnl_exec_arg_t> arguments_;    // in the order of memories_
  size_t num_inputs_ = 0;
  int threads_ = 1;
};

// Runs one of two primitives: `team` on a team, or that of `alone_desc` on the calling thread while teams lose time.
class TeamPrimitiveKernel final : public Kernel {
 public:
  TeamPrimitiveKernel(std::unique_ptr<Kernel> team, OwnedDesc alone_desc, std::vector<Argument> inputs,
                      std::vector<Argument> outputs, size_t alone_scratch_bytes)
      : team_(std::move(team)),
        alone_desc_(std::move(alone_desc)),
        inputs_(std::move(inputs)),
        outputs_(std::move(outputs)) {
    scratch_bytes_ = std::max(team_->scratch_bytes(), alone_scratch_bytes);
  }

  absl::Status Run(const KernelArgs& args) override {
    if (!RunsAlone()) return team_->Run(args);
    const ScopedThreads one_thread(1);
    if (alone_ == nullptr) COTAN_RETURN_IF_ERROR(MakeAlone());
    return alone_->Run(args);
  }

 private:
  absl::Status MakeAlone() {
    COTAN_ASSIGN_OR_RETURN(alone_, PrimitiveKernel::Create(alone_desc_.get(), inputs_, outputs_));
    return absl::OkStatus();
  }

  std::unique_ptr<Kernel> team_;
  std::unique_ptr<Kernel> alone_;  // null until it is needed
  OwnedDesc alone_desc_;
  std::vector<Argument> inputs_;
  std::vector<Argument> outputs_;
};

absl::StatusOr<OwnedDesc> MakeReorderDesc(const MemoryLayout& from, const MemoryLayout& to) {
  COTAN_ASSIGN_OR_RETURN(const dnnl_engine_t engine, CpuEngine());
  COTAN_ASSIGN_OR_RETURN(const OwnedAttr attr, MakeAttr());
  dnnl_primitive_desc_t raw = nullptr;
  COTAN_RETURN_IF_DNNL_ERROR(
      dnnl_reorder_primitive_desc_create(&raw, from.handle(), engine, to.handle(), engine, attr.get()));
  return OwnedDesc(raw);
}

// Returns true if the processor multiplies bf16 without AMX (vdpbf16ps) at half the rate of f32, in operations. Intel's
// do since Golden Cove, which has AVX512_FP16; where they have no AMX, a hypervisor hides it.
bool MultipliesPairsSlowly() {
#if defined(__x86_64__) && defined(__GNUC__)
  __builtin_cpu_init();
  return __builtin_cpu_is("intel") && __builtin_cpu_supports("avx512fp16");
#else
  return false;
#endif
}

}  // namespace

bool HasAmx() {
  switch (dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_avx512_core_amx:
#if DNNL_VERSION_MAJOR >= 3
    case dnnl_cpu_isa_avx512_core_amx_fp16:
#endif
      return true;
    default:
      return false;
  }
}

bool HasFast(DType dtype) {
  if (dtype == DType::kFloat32) return true;
  if (dtype != DType::kBFloat16) return false;
  if (HasAmx()) return true;
  switch (dnnl_get_effective_cpu_isa()) {
    case dnnl_cpu_isa_avx512_core_bf16:
#if DNNL_VERSION_MAJOR >= 3
    case dnnl_cpu_isa_avx512_core_fp16:
#endif
      return !MultipliesPairsSlowly();
    default:
      return false;
  }
}

absl::StatusOr<std::unique_ptr<Kernel>> MakePrimitive(const_dnnl_primitive_desc_t desc, std::vector<Argument> inputs,
                                                      std::vector<Argument> outputs) {
  return PrimitiveKernel::Create(desc, inputs, outputs);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeTeamPrimitive(const_dnnl_primitive_desc_t desc,
                                                          absl::FunctionRef<absl::StatusOr<OwnedDesc>()> describe,
                                                          std::vector<Argument> inputs, std::vector<Argument> outputs) {
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> team, PrimitiveKernel::Create(desc, inputs, outputs));
  const ScopedThreads one_thread(1);
  absl::StatusOr<OwnedDesc> alone = describe();
  // Another implementation may add in another order.
  if (!alone.ok() || ImplementationName(alone->get()) != ImplementationName(desc)) return team;
  COTAN_ASSIGN_OR_RETURN(const MemoryLayout scratchpad, ChosenMemory(alone->get(), dnnl_query_scratchpad_md));
  return std::make_unique<TeamPrimitiveKernel>(std::move(team), *std::move(alone), std::move(inputs),
                                               std::move(outputs), scratchpad.bytes());
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeReorder(const MemoryLayout& from, const MemoryLayout& to, int threads) {
  const ScopedThreads scoped(threads);
  const auto describe = [&] { return MakeReorderDesc(from, to); };
  COTAN_ASSIGN_OR_RETURN(const OwnedDesc desc, describe());
  std::vector<Argument> inputs = {{DNNL_ARG_FROM, from}};
  std::vector<Argument> outputs = {{DNNL_ARG_TO, to}};
  if (threads == 1) return MakePrimitive(desc.get(), std::move(inputs), std::move(outputs));
  return MakeTeamPrimitive(desc.get(), describe, std::move(inputs), std::move(outputs));
}

}  // namespace cotan::cpu::onednn
