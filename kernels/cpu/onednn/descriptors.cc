// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/onednn/descriptors.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace cotan::cpu::onednn {
namespace {

// Dimensions in the array that oneDNN reads.
using Dims = std::array<int64_t, DNNL_MAX_NDIMS>;

Dims ToDims(absl::Span<const int64_t> values) {
  Dims dims = {};
  std::copy(values.begin(), values.end(), dims.begin());
  return dims;
}

absl::Status AllMiscomputed() {
  return absl::UnimplementedError("oneDNN: all implementations of the operation are on the blocklist");
}

#if DNNL_VERSION_MAJOR >= 3

absl::StatusOr<MemoryLayout> Adopt(dnnl_status_t status, dnnl_memory_desc_t memory, absl::string_view call) {
  COTAN_RETURN_IF_ERROR(ToStatus(status, call));
  return MemoryLayout(std::shared_ptr<const dnnl_memory_desc>(
      memory, [memory](const dnnl_memory_desc*) { dnnl_memory_desc_destroy(memory); }));
}

absl::StatusOr<MemoryLayout> Strided(dnnl_data_type_t type, int rank, const Dims& sizes, const Dims& strides) {
  dnnl_memory_desc_t memory = nullptr;
  const dnnl_status_t status = dnnl_memory_desc_create_with_strides(&memory, rank, sizes.data(), type, strides.data());
  return Adopt(status, memory, "dnnl_memory_desc_create_with_strides");
}

absl::StatusOr<MemoryLayout> Any(dnnl_data_type_t type, int rank, const Dims& sizes) {
  dnnl_memory_desc_t memory = nullptr;
  const dnnl_status_t status = dnnl_memory_desc_create_with_tag(&memory, rank, sizes.data(), type, dnnl_format_tag_any);
  return Adopt(status, memory, "dnnl_memory_desc_create_with_tag");
}

absl::StatusOr<Dims> Sizes(const MemoryLayout& memory) {
  int rank = 0;
  COTAN_RETURN_IF_DNNL_ERROR(dnnl_memory_desc_query(memory.handle(), dnnl_query_ndims_s32, &rank));
  const dnnl_dims_t* sizes = nullptr;
  COTAN_RETURN_IF_DNNL_ERROR(dnnl_memory_desc_query(memory.handle(), dnnl_query_dims, &sizes));
  return ToDims(absl::MakeConstSpan(*sizes, rank));
}

absl::StatusOr<MemoryLayout> Part(const MemoryLayout& whole, const Dims& sizes) {
  dnnl_memory_desc_t memory = nullptr;
  const Dims offsets = {};
  const dnnl_status_t status = dnnl_memory_desc_create_submemory(&memory, whole.handle(), sizes.data(), offsets.data());
  return Adopt(status, memory, "dnnl_memory_desc_create_submemory");
}

absl::StatusOr<MemoryLayout> Copy(const_dnnl_memory_desc_t from) {
  dnnl_memory_desc_t memory = nullptr;
  const dnnl_status_t status = dnnl_memory_desc_clone(&memory, from);
  return Adopt(status, memory, "dnnl_memory_desc_clone");
}

dnnl_status_t AppendSum(dnnl_post_ops_t ops) { return dnnl_post_ops_append_sum(ops, 1.0F, 0, dnnl_data_type_undef); }

// Returns the first implementation from `desc` on for whose name `is_usable` returns true.
absl::StatusOr<OwnedDesc> FirstUsable(OwnedDesc desc, NameFilter is_usable) {
  while (!is_usable(ImplementationName(desc.get()))) {
    const dnnl_status_t next = dnnl_primitive_desc_next_impl(desc.get());
    if (next == dnnl_last_impl_reached) return AllMiscomputed();
    COTAN_RETURN_IF_DNNL_ERROR(next);
  }
  return desc;
}

absl::StatusOr<OwnedDesc> Matmul(const MemoryLayout& a, const MemoryLayout& b, const MemoryLayout& bias,
                                 const MemoryLayout& c, dnnl_engine_t engine, const_dnnl_primitive_attr_t attr,
                                 NameFilter is_usable) {
  dnnl_primitive_desc_t desc = nullptr;
  COTAN_RETURN_IF_DNNL_ERROR(
      dnnl_matmul_primitive_desc_create(&desc, engine, a.handle(), b.handle(), bias.handle(), c.handle(), attr));
  return FirstUsable(OwnedDesc(desc), is_usable);
}

absl::StatusOr<OwnedDesc> Forward(const ConvolutionDesc& c, dnnl_engine_t engine, const_dnnl_primitive_attr_t attr,
                                  NameFilter is_usable) {
  dnnl_primitive_desc_t desc = nullptr;
  COTAN_RETURN_IF_DNNL_ERROR(dnnl_convolution_forward_primitive_desc_create(
      &desc, engine, dnnl_forward_training, dnnl_convolution_direct, c.source.handle(), c.weights.handle(),
      c.bias.handle(), c.destination.handle(), c.stride.data(), c.dilation.data(), c.padding_before.data(),
      c.padding_after.data(), attr));
  return FirstUsable(OwnedDesc(desc), is_usable);
}

absl::StatusOr<OwnedDesc> BackwardData(const ConvolutionDesc& c, dnnl_engine_t engine, const_dnnl_primitive_attr_t attr,
                                       const_dnnl_primitive_desc_t forward, NameFilter is_usable) {
  dnnl_primitive_desc_t desc = nullptr;
  COTAN_RETURN_IF_DNNL_ERROR(dnnl_convolution_backward_data_primitive_desc_create(
      &desc, engine, dnnl_convolution_direct, c.source.handle(), c.weights.handle(), c.destination.handle(),
      c.stride.data(), c.dilation.data(), c.padding_before.data(), c.padding_after.data(), forward, attr));
  return FirstUsable(OwnedDesc(desc), is_usable);
}

absl::StatusOr<OwnedDesc> BackwardWeights(const ConvolutionDesc& c, dnnl_engine_t engine,
                                          const_dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t forward,
                                          NameFilter is_usable) {
  dnnl_primitive_desc_t desc = nullptr;
  COTAN_RETURN_IF_DNNL_ERROR(dnnl_convolution_backward_weights_primitive_desc_create(
      &desc, engine, dnnl_convolution_direct, c.source.handle(), c.weights.handle(), nullptr, c.destination.handle(),
      c.stride.data(), c.dilation.data(), c.padding_before.data(), c.padding_after.data(), forward, attr));
  return FirstUsable(OwnedDesc(desc), is_usable);
}

#else

absl::StatusOr<MemoryLayout> Adopt(dnnl_status_t status, const dnnl_memory_desc_t& memory, absl::string_view call) {
  COTAN_RETURN_IF_ERROR(ToStatus(status, call));
  return MemoryLayout(std::make_shared<const dnnl_memory_desc_t>(memory));
}

absl::StatusOr<MemoryLayout> Strided(dnnl_data_type_t type, int rank, const Dims& sizes, const Dims& strides) {
  dnnl_memory_desc_t memory;
  const dnnl_status_t status = dnnl_memory_desc_init_by_strides(&memory, rank, sizes.data(), type, strides.data());
  return Adopt(status, memory, "dnnl_memory_desc_init_by_strides");
}

absl::StatusOr<MemoryLayout> Any(dnnl_data_type_t type, int rank, const Dims& sizes) {
  dnnl_memory_desc_t memory;
  const dnnl_status_t status = dnnl_memory_desc_init_by_tag(&memory, rank, sizes.data(), type, dnnl_format_tag_any);
  return Adopt(status, memory, "dnnl_memory_desc_init_by_tag");
}

absl::StatusOr<Dims> Sizes(const MemoryLayout& memory) {
  return ToDims(absl::MakeConstSpan(memory.handle()->dims, memory.handle()->ndims));
}

absl::StatusOr<MemoryLayout> Part(const MemoryLayout& whole, const Dims& sizes) {
  dnnl_memory_desc_t memory;
  const Dims offsets = {};
  const dnnl_status_t status = dnnl_memory_desc_init_submemory(&memory, whole.handle(), sizes.data(), offsets.data());
  return Adopt(status, memory, "dnnl_memory_desc_init_submemory");
}

absl::StatusOr<MemoryLayout> Copy(const dnnl_memory_desc_t* from) {
  return MemoryLayout(std::make_shared<const dnnl_memory_desc_t>(*from));
}

dnnl_status_t AppendSum(dnnl_post_ops_t ops) { return dnnl_post_ops_append_sum(ops, 1.0F); }

struct IteratorDeleter {
  void operator()(dnnl_primitive_desc_iterator_t iterator) const { dnnl_primitive_desc_iterator_destroy(iterator); }
};

// Returns the first implementation of `operation` for whose name `is_usable` returns true.
absl::StatusOr<OwnedDesc> FirstUsable(const_dnnl_op_desc_t operation, dnnl_engine_t engine,
                                      const_dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t forward,
                                      NameFilter is_usable) {
  dnnl_primitive_desc_iterator_t raw = nullptr;
  COTAN_RETURN_IF_DNNL_ERROR(dnnl_primitive_desc_iterator_create(&raw, operation, attr, engine, forward));
  const std::unique_ptr<dnnl_primitive_desc_iterator, IteratorDeleter> implementations(raw);
  for (;;) {
    OwnedDesc desc(dnnl_primitive_desc_iterator_fetch(implementations.get()));
    if (desc == nullptr) return absl::ResourceExhaustedError("oneDNN: out of memory for a primitive descriptor");
    if (is_usable(ImplementationName(desc.get()))) return desc;
    const dnnl_status_t next = dnnl_primitive_desc_iterator_next(implementations.get());
    if (next == dnnl_iterator_ends) return AllMiscomputed();
    COTAN_RETURN_IF_DNNL_ERROR(next);
  }
}

absl::StatusOr<OwnedDesc> Matmul(const MemoryLayout& a, const MemoryLayout& b, const MemoryLayout& bias,
                                 const MemoryLayout& c, dnnl_engine_t engine, const_dnnl_primitive_attr_t attr,
                                 NameFilter is_usable) {
  dnnl_matmul_desc_t operation;
  COTAN_RETURN_IF_DNNL_ERROR(dnnl_matmul_desc_init(&operation, a.handle(), b.handle(), bias.handle(), c.handle()));
  return FirstUsable(&operation, engine, attr, /*forward=*/nullptr, is_usable);
}

absl::StatusOr<OwnedDesc> Forward(const ConvolutionDesc& c, dnnl_engine_t engine, const_dnnl_primitive_attr_t attr,
                                  NameFilter is_usable) {
  dnnl_convolution_desc_t operation;
  COTAN_RETURN_IF_DNNL_ERROR(dnnl_dilated_convolution_forward_desc_init(
      &operation, dnnl_forward_training, dnnl_convolution_direct, c.source.handle(), c.weights.handle(),
      c.bias.handle(), c.destination.handle(), c.stride.data(), c.dilation.data(), c.padding_before.data(),
      c.padding_after.data()));
  return FirstUsable(&operation, engine, attr, /*forward=*/nullptr, is_usable);
}

absl::StatusOr<OwnedDesc> BackwardData(const ConvolutionDesc& c, dnnl_engine_t engine, const_dnnl_primitive_attr_t attr,
                                       const_dnnl_primitive_desc_t forward, NameFilter is_usable) {
  dnnl_convolution_desc_t operation;
  COTAN_RETURN_IF_DNNL_ERROR(dnnl_dilated_convolution_backward_data_desc_init(
      &operation, dnnl_convolution_direct, c.source.handle(), c.weights.handle(), c.destination.handle(),
      c.stride.data(), c.dilation.data(), c.padding_before.data(), c.padding_after.data()));
  return FirstUsable(&operation, engine, attr, forward, is_usable);
}

absl::StatusOr<OwnedDesc> BackwardWeights(const ConvolutionDesc& c, dnnl_engine_t engine,
                                          const_dnnl_primitive_attr_t attr, const_dnnl_primitive_desc_t forward,
                                          NameFilter is_usable) {
  dnnl_convolution_desc_t operation;
  COTAN_RETURN_IF_DNNL_ERROR(dnnl_dilated_convolution_backward_weights_desc_init(
      &operation, dnnl_convolution_direct, c.source.handle(), c.weights.handle(), nullptr, c.destination.handle(),
      c.stride.data(), c.dilation.data(), c.padding_before.data(), c.padding_after.data()));
  return FirstUsable(&operation, engine, attr, forward, is_usable);
}

#endif

absl::Status CheckRank(absl::Span<const int64_t> sizes) {
  if (sizes.size() <= DNNL_MAX_NDIMS) return absl::OkStatus();
  return absl::UnimplementedError(
      absl::StrCat("a tensor has ", sizes.size(), " dimensions; oneDNN supports at most ", DNNL_MAX_NDIMS));
}

}  // namespace

int MajorVersion() { return DNNL_VERSION_MAJOR; }

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

absl::StatusOr<MemoryLayout> StridedMemory(DType dtype, absl::Span<const int64_t> sizes,
                                           absl::Span<const int64_t> strides) {
  COTAN_ASSIGN_OR_RETURN(const dnnl_data_type_t type, DataType(dtype));
  COTAN_RETURN_IF_ERROR(CheckRank(sizes));
  return Strided(type, static_cast<int>(sizes.size()), ToDims(sizes), ToDims(strides));
}

absl::StatusOr<MemoryLayout> AnyMemory(DType dtype, absl::Span<const int64_t> sizes) {
  COTAN_ASSIGN_OR_RETURN(const dnnl_data_type_t type, DataType(dtype));
  COTAN_RETURN_IF_ERROR(CheckRank(sizes));
  return Any(type, static_cast<int>(sizes.size()), ToDims(sizes));
}

absl::StatusOr<MemoryLayout> FirstIndices(const MemoryLayout& whole, int64_t count) {
  COTAN_ASSIGN_OR_RETURN(Dims sizes, Sizes(whole));
  sizes[0] = count;
  return Part(whole, sizes);
}

absl::StatusOr<MemoryLayout> ChosenMemory(const_dnnl_primitive_desc_t desc, dnnl_query_t what) {
  return Copy(dnnl_primitive_desc_query_md(desc, what, 0));
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
  COTAN_RETURN_IF_DNNL_ERROR(AppendSum(raw_ops));
  COTAN_RETURN_IF_DNNL_ERROR(dnnl_primitive_attr_set_post_ops(raw, raw_ops));
  return attr;
}

absl::StatusOr<OwnedDesc> MakeMatmulDesc(const MemoryLayout& a, const MemoryLayout& b, const MemoryLayout& bias,
                                         const MemoryLayout& c, const_dnnl_primitive_attr_t attr,
                                         NameFilter is_usable) {
  COTAN_ASSIGN_OR_RETURN(const dnnl_engine_t engine, CpuEngine());
  return Matmul(a, b, bias, c, engine, attr, is_usable);
}

absl::StatusOr<OwnedDesc> MakeConvolutionForwardDesc(const ConvolutionDesc& convolution,
                                                     const_dnnl_primitive_attr_t attr, NameFilter is_usable) {
  COTAN_ASSIGN_OR_RETURN(const dnnl_engine_t engine, CpuEngine());
  return Forward(convolution, engine, attr, is_usable);
}

absl::StatusOr<OwnedDesc> MakeConvolutionBackwardDataDesc(const ConvolutionDesc& convolution,
                                                          const_dnnl_primitive_attr_t attr,
                                                          const_dnnl_primitive_desc_t forward, NameFilter is_usable) {
  COTAN_ASSIGN_OR_RETURN(const dnnl_engine_t engine, CpuEngine());
  return BackwardData(convolution, engine, attr, forward, is_usable);
}

absl::StatusOr<OwnedDesc> MakeConvolutionBackwardWeightsDesc(const ConvolutionDesc& convolution,
                                                             const_dnnl_primitive_attr_t attr,
                                                             const_dnnl_primitive_desc_t forward,
                                                             NameFilter is_usable) {
  COTAN_ASSIGN_OR_RETURN(const dnnl_engine_t engine, CpuEngine());
  return BackwardWeights(convolution, engine, attr, forward, is_usable);
}

absl::string_view ImplementationName(const_dnnl_primitive_desc_t desc) {
  const char* name = nullptr;
  dnnl_primitive_desc_query(desc, dnnl_query_impl_info_str, 0, static_cast<void*>(&name));
  return name == nullptr ? "" : name;
}

int ImplementationRank(const_dnnl_primitive_desc_t desc) {
  const absl::string_view name = ImplementationName(desc);
  if (absl::StrContains(name, "ref")) return 2;
  return absl::StrContains(name, "gemm") && !absl::StrContains(name, "brg") ? 1 : 0;
}

}  // namespace cotan::cpu::onednn
