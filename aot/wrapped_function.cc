// SPDX-License-Identifier: Apache-2.0

#include "aot/wrapped_function.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "aot/aotautograd/wrap_method.h"
#include "base/layout.h"

namespace cotan::aot {
namespace {

// Returns the structure of `value` over the flat tensors from `next` on.
FlatMeta StructureOf(const WrappedTensor& value, int& next) {
  if (value.is_plain()) return PlainTensorMeta{.flat_index = next++, .expected = {}};
  WrapperMeta meta;
  meta.type_name = value.type_name();
  meta.flat_start = next;
  for (const WrappedPart<at::Tensor>& part : value.parts()) {
    FlatMeta inner = StructureOf(part.value, next);
    WrapperAttribute& attribute = meta.attributes.emplace_back();
    attribute.name = part.name;
    std::visit([&](auto& kind) { attribute.value = std::move(kind); }, inner);
  }
  meta.flat_count = next - meta.flat_start;
  const DimVector strides = ContiguousStrides(value.outer_sizes());
  meta.outer_sizes.assign(value.outer_sizes().begin(), value.outer_sizes().end());
  meta.outer_strides.assign(strides.begin(), strides.end());
  meta.metadata = value.metadata();
  return meta;
}

std::vector<FlatMeta> StructureOf(const std::vector<WrappedTensor>& values) {
  std::vector<FlatMeta> metas;
  int next = 0;
  for (const WrappedTensor& value : values) metas.push_back(StructureOf(value, next));
  return metas;
}

void DropSizes(WrapperMeta& meta) {
  meta.outer_sizes.clear();
  meta.outer_strides.clear();
  for (WrapperAttribute& attribute : meta.attributes) {
    if (auto* inner = std::get_if<WrapperMeta>(&attribute.value)) DropSizes(*inner);
  }
}

// Returns the part of the structure that is equal in every call: without outer sizes if they are
// dynamic.
std::vector<FlatMeta> Compared(std::vector<FlatMeta> metas, bool is_dynamic) {
  if (!is_dynamic) return metas;
  for (FlatMeta& meta : metas) {
    if (auto* wrapper = std::get_if<WrapperMeta>(&meta)) DropSizes(*wrapper);
  }
  return metas;
}

std::vector<at::Tensor> TensorsOf(const std::vector<WrappedTensor>& values) {
  std::vector<at::Tensor> tensors;
  for (const WrappedTensor& value : values) value.Append(tensors);
  return tensors;
}

}  // namespace

absl::StatusOr<CompiledModel> CompileWrappedFunction(const WrappedFunction& function,
                                                     const std::vector<WrappedTensor>& examples,
                                                     const CompileOptions& options, const Rewrapping& rewrap) {
  const bool is_dynamic = !options.dynamic_dims.empty();
  if (is_dynamic && rewrap == nullptr) {
    return absl::UnimplementedError(
        "dynamic_dims with wrapper types need `rewrap`; use CompileWrapped(), which sets it");
  }
  WrapperStructure structure = {.inputs = StructureOf(examples), .outputs = {}};
  bool has_run = false;
  const TensorFunction flat = [&](const std::vector<at::Tensor>& inputs) {
    size_t next = 0;
    std::vector<WrappedTensor> arguments;
    for (const WrappedTensor& example : examples) {
      arguments.push_back(example.Map([&](const at::Tensor&) { return inputs[next++]; }));
    }
    if (rewrap != nullptr) arguments = rewrap(arguments);
    structure.inputs = StructureOf(arguments);
    const std::vector<WrappedTensor> results = function(arguments);
    std::vector<FlatMeta> outputs = StructureOf(results);
    if (has_run && Compared(outputs, is_dynamic) != Compared(structure.outputs, is_dynamic)) {
      throw std::invalid_argument("the function returned other wrapper types when it was called again");
    }
    structure.outputs = std::move(outputs);
    has_run = true;
    return TensorsOf(results);
  };
  return internal::CompileFlatFunction(flat, TensorsOf(examples), options, structure);
}

}  // namespace cotan::aot
