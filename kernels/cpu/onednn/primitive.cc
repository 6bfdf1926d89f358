// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/onednn/primitive.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

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
    const dnnl_memory_desc_t& scratchpad = ChosenMemory(desc, dnnl_query_scratchpad_md);
    kernel->scratch_bytes_ = dnnl_memory_desc_get_size(&scratchpad);
    COTAN_RETURN_IF_ERROR(kernel->AddArgument(engine, {DNNL_ARG_SCRATCHPAD, scratchpad}));
    return kernel;
  }

  absl::Status Run(const KernelArgs& args) override {
    const size_t operands = memories_.size() - 1;
    for (size_t i = 0; i < num_inputs_; ++i) COTAN_RETURN_IF_ERROR(SetData(i, args.inputs[i]));
    for (size_t i = num_inputs_; i < operands; ++i) COTAN_RETURN_IF_ERROR(SetData(i, args.outputs[i - num_inputs_]));
    COTAN_RETURN_IF_ERROR(SetData(operands, args.scratch));
    COTAN_RETURN_IF_DNNL_ERROR(dnnl_primitive_execute(primitive_.get(), stream_.get(),
                                                      static_cast<int>(arguments_.size()), arguments_.data()));
    return absl::OkStatus();
  }

 private:
  absl::Status AddArgument(dnnl_engine_t engine, const Argument& argument) {
    dnnl_memory_t memory = nullptr;
    COTAN_RETURN_IF_DNNL_ERROR(dnnl_memory_create(&memory, &argument.memory, engine, DNNL_MEMORY_NONE));
    memories_.emplace_back(memory);
    arguments_.push_back({argument.argument, memory});
    return absl::OkStatus();
  }

  absl::Status SetData(size_t i, void* data) {
    COTAN_RETURN_IF_DNNL_ERROR(dnnl_memory_set_data_handle_v2(memories_[i].get(), data, stream_.get()));
    return absl::OkStatus();
  }

  Owned<dnnl_stream> stream_;
  Owned<dnnl_primitive> primitive_;
  std::vector<Owned<dnnl_memory>> memories_;  // of the inputs, the outputs and the scratchpad
  std::vector<dnnl_exec_arg_t> arguments_;    // in the order of memories_
  size_t num_inputs_ = 0;
};

absl::StatusOr<dnnl_engine_t> CreateEngine() {
  dnnl_engine_t engine = nullptr;
  COTAN_RETURN_IF_DNNL_ERROR(dnnl_engine_create(&engine, dnnl_cpu, 0));
  return engine;
}

}  // namespace

absl::Status ToStatus(dnnl_status_t status, absl::string_view call) {
  const auto message = [&](absl::string_view name) { return absl::StrCat("oneDNN: ", name, " from ", call); };
  switch (status) {
    case dnnl_success:
      return absl::OkStatus();
    case dnnl_out_of_memory:
      return absl::ResourceExhaustedError(message("out of memory"));
    case dnnl_unimplemented:
      return absl::UnimplementedError(message("unimplemented"));
    case dnnl_invalid_arguments:
      return absl::InternalError(message("invalid arguments"));
    case dnnl_runtime_error:
      return absl::InternalError(message("runtime error"));
    case dnnl_iterator_ends:
    case dnnl_not_required:
      break;
  }
  return absl::InternalError(message(absl::StrCat("status ", static_cast<int>(status))));
}

absl::StatusOr<dnnl_engine_t> CpuEngine() {
  static const absl::StatusOr<dnnl_engine_t>& engine = *new absl::StatusOr<dnnl_engine_t>(CreateEngine());
  return engine;
}

absl::StatusOr<dnnl_data_type_t> DataType(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return dnnl_f32;
    case DType::kBFloat16:
      return dnnl_bf16;
    case DType::kInt32:
      return dnnl_s32;
    case DType::kInt8:
      return dnnl_s8;
    case DType::kUInt8:
      return dnnl_u8;
    default:
      return absl::UnimplementedError(absl::StrCat("oneDNN does not support the dtype ", DTypeName(dtype)));
  }
}

bool HasFast(DType dtype) {
  if (dtype == DType::kFloat32) return true;
  const dnnl_cpu_isa_t isa = dnnl_get_effective_cpu_isa();
  return dtype == DType::kBFloat16 && (isa == dnnl_cpu_isa_avx512_core_bf16 || isa == dnnl_cpu_isa_avx512_core_amx);
}

absl::StatusOr<dnnl_memory_desc_t> StridedMemory(DType dtype, absl::Span<const int64_t> sizes,
                                                 absl::Span<const int64_t> strides) {
  COTAN_ASSIGN_OR_RETURN(const dnnl_data_type_t type, DataType(dtype));
  if (sizes.size() > DNNL_MAX_NDIMS) {
    return absl::UnimplementedError(
        absl::StrCat("a tensor has ", sizes.size(), " dimensions; oneDNN supports at most ", DNNL_MAX_NDIMS));
  }
  dnnl_dims_t dims = {};
  dnnl_dims_t steps = {};
  std::copy(sizes.begin(), sizes.end(), dims);
  std::copy(strides.begin(), strides.end(), steps);
  dnnl_memory_desc_t memory;
  COTAN_RETURN_IF_DNNL_ERROR(
      dnnl_memory_desc_init_by_strides(&memory, static_cast<int>(sizes.size()), dims, type, steps));
  return memory;
}

absl::StatusOr<dnnl_memory_desc_t> AnyMemory(DType dtype, absl::Span<const int64_t> sizes) {
  COTAN_ASSIGN_OR_RETURN(const dnnl_data_type_t type, DataType(dtype));
  if (sizes.size() > DNNL_MAX_NDIMS) {
    return absl::UnimplementedError(
        absl::StrCat("a tensor has ", sizes.size(), " dimensions; oneDNN supports at most ", DNNL_MAX_NDIMS));
  }
  dnnl_dims_t dims = {};
  std::copy(sizes.begin(), sizes.end(), dims);
  dnnl_memory_desc_t memory;
  COTAN_RETURN_IF_DNNL_ERROR(
      dnnl_memory_desc_init_by_tag(&memory, static_cast<int>(sizes.size()), dims, type, dnnl_format_tag_any));
  return memory;
}

absl::StatusOr<OwnedAttr> MakeAttr(bool accumulate) {
  dnnl_primitive_attr_t raw = nullptr;
  COTAN_RETURN_IF_DNNL_ERROR(dnnl_primitive_attr_create(&raw));
  OwnedAttr attr(raw);
  COTAN_RETURN_IF_DNNL_ERROR(dnnl_primitive_attr_set_scratchpad_mode(raw, dnnl_scratchpad_mode_user));
  if (!accumulate) return attr;
  dnnl_post_ops_t raw_ops = nullptr;
  COTAN_RETURN_IF_DNNL_ERROR(dnnl_post_ops_create(&raw_ops));
  const Owned<dnnl_post_ops> ops(raw_ops);
  COTAN_RETURN_IF_DNNL_ERROR(dnnl_post_ops_append_sum(raw_ops, 1.0F));
  COTAN_RETURN_IF_DNNL_ERROR(dnnl_primitive_attr_set_post_ops(raw, raw_ops));
  return attr;
}

absl::StatusOr<OwnedDesc> MakeDesc(const_dnnl_op_desc_t operation, const_dnnl_primitive_attr_t attr,
                                   const_dnnl_primitive_desc_t forward) {
  COTAN_ASSIGN_OR_RETURN(const dnnl_engine_t engine, CpuEngine());
  dnnl_primitive_desc_t desc = nullptr;
  COTAN_RETURN_IF_DNNL_ERROR(dnnl_primitive_desc_create(&desc, operation, attr, engine, forward));
  return OwnedDesc(desc);
}

absl::StatusOr<OwnedDesc> MakeDesc(const_dnnl_op_desc_t operation, const_dnnl_primitive_attr_t attr,
                                   const_dnnl_primitive_desc_t forward,
                                   absl::FunctionRef<bool(absl::string_view name)> is_usable) {
  COTAN_ASSIGN_OR_RETURN(const dnnl_engine_t engine, CpuEngine());
  dnnl_primitive_desc_iterator_t raw = nullptr;
  COTAN_RETURN_IF_DNNL_ERROR(dnnl_primitive_desc_iterator_create(&raw, operation, attr, engine, forward));
  const Owned<dnnl_primitive_desc_iterator> implementations(raw);
  for (;;) {
    OwnedDesc desc(dnnl_primitive_desc_iterator_fetch(implementations.get()));
    if (desc == nullptr) return absl::ResourceExhaustedError("oneDNN: out of memory for a primitive descriptor");
    if (is_usable(ImplementationName(desc.get()))) return desc;
    const dnnl_status_t next = dnnl_primitive_desc_iterator_next(implementations.get());
    if (next == dnnl_iterator_ends) {
      return absl::UnimplementedError("oneDNN: all implementations of the operation are on the blocklist");
    }
    COTAN_RETURN_IF_DNNL_ERROR(next);
  }
}

absl::string_view ImplementationName(const_dnnl_primitive_desc_t desc) {
  const char* name = nullptr;
  dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, &name);
  return name == nullptr ? "" : name;
}

int ImplementationRank(const_dnnl_primitive_desc_t desc) {
  const absl::string_view name = ImplementationName(desc);
  if (absl::StrContains(name, "ref")) return 2;
  return absl::StrContains(name, "gemm") && !absl::StrContains(name, "brg") ? 1 : 0;
}

const dnnl_memory_desc_t& ChosenMemory(const_dnnl_primitive_desc_t desc, dnnl_query_t what) {
  return *dnnl_primitive_desc_query_md(desc, what, 0);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakePrimitive(const_dnnl_primitive_desc_t desc, std::vector<Argument> inputs,
                                                      std::vector<Argument> outputs) {
  return PrimitiveKernel::Create(desc, inputs, outputs);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeReorder(const dnnl_memory_desc_t& from, const dnnl_memory_desc_t& to) {
  COTAN_ASSIGN_OR_RETURN(const dnnl_engine_t engine, CpuEngine());
  COTAN_ASSIGN_OR_RETURN(const OwnedAttr attr, MakeAttr());
  dnnl_primitive_desc_t raw = nullptr;
  COTAN_RETURN_IF_DNNL_ERROR(dnnl_reorder_primitive_desc_create(&raw, &from, engine, &to, engine, attr.get()));
  const OwnedDesc desc(raw);
  return MakePrimitive(desc.get(), {{DNNL_ARG_FROM, from}}, {{DNNL_ARG_TO, to}});
}

}  // namespace cotan::cpu::onednn
