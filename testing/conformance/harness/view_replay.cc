// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/harness/view_replay.h"

#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "serialization/metadata/tensor_geometry.h"
#include "serialization/metadata/view_geometry.h"

namespace cotan::conformance {
namespace {

std::optional<DType> DTypeOf(const std::string& name) {
  static constexpr std::pair<absl::string_view, DType> kNames[] = {
      {"float32", DType::kFloat32},     {"float64", DType::kFloat64}, {"float16", DType::kFloat16},
      {"bfloat16", DType::kBFloat16},   {"int64", DType::kInt64},     {"int32", DType::kInt32},
      {"complex64", DType::kComplex64}, {"bool", DType::kBool},       {"uint8", DType::kUInt8},
      {"int16", DType::kInt16},         {"int8", DType::kInt8}};
  for (const auto& [known, dtype] : kNames) {
    if (known == name) return dtype;
  }
  return std::nullopt;
}

// Returns nullopt for values other than tensors, and for dtypes that view steps do not support.
std::optional<ViewGeometry> GeometryOf(const Json& tensor) {
  if (!tensor.contains("dtype")) return std::nullopt;
  const std::optional<DType> dtype = DTypeOf(tensor["dtype"].get<std::string>());
  if (!dtype.has_value()) return std::nullopt;
  ViewGeometry geometry{*dtype, {}};
  for (const Json& size : tensor["size"]) geometry.layout.sizes.push_back(size.get<int64_t>());
  for (const Json& stride : tensor["stride"]) geometry.layout.strides.push_back(stride.get<int64_t>());
  geometry.layout.offset = tensor["offset"].get<int64_t>();
  return geometry;
}

// Returns the geometry of the view steps' base; nullopt if it is not recorded.
std::optional<ViewGeometry> BaseOf(const ViewAndMutationMeta& meta, const OutputAliasInfo& output, const Json& eager) {
  const auto base = static_cast<size_t>(output.base_index.value_or(0));
  if (output.output_type == OutputType::kAliasOfIntermediateBaseIsUserOutput) return GeometryOf(eager["outputs"][base]);
  if (!IsAliasOfInput(output.output_type)) return std::nullopt;
  const InputAliasInfo& input = meta.input(static_cast<int>(base));
  if (input.mutates_metadata || input.mutates_storage_metadata) return std::nullopt;
  return GeometryOf(eager["inputs_after"][base]);
}

absl::StatusOr<ViewGeometry> Replay(const OutputAliasInfo& output, ViewGeometry geometry,
                                    absl::Span<const int64_t> symbols) {
  if (output.geometry.has_value()) {
    absl::StatusOr<StridedLayout> layout = EvaluateLayout(*output.geometry, symbols);
    if (!layout.ok()) return layout.status();
    return ViewGeometry{output.geometry->dtype, *std::move(layout)};
  }
  for (const ViewStep& step : output.view_steps) {
    absl::StatusOr<ViewGeometry> next = ApplyViewStep(step, geometry, symbols);
    if (!next.ok()) return next.status();
    geometry = *std::move(next);
  }
  return geometry;
}

std::string Text(const ViewGeometry& geometry) {
  return absl::StrCat(DTypeName(geometry.dtype), ToString(geometry.layout));
}

}  // namespace

void CompareViewArguments(const ViewAndMutationMeta& meta, int index, const Json& eager,
                          absl::Span<const int64_t> symbols, Differences& differences) {
  const OutputAliasInfo& output = meta.output(index);
  if (output.view_steps.empty() || !eager.contains("outputs")) return;
  const std::optional<ViewGeometry> base = BaseOf(meta, output, eager);
  const std::optional<ViewGeometry> expected = GeometryOf(eager["outputs"][static_cast<size_t>(index)]);
  if (!base.has_value() || !expected.has_value()) {
    return differences.NotCompared("arguments of the views of an output, whose base's geometry is not recorded");
  }
  const absl::StatusOr<ViewGeometry> actual = Replay(output, *base, symbols);
  if (absl::IsUnimplemented(actual.status())) {
    return differences.NotCompared("arguments of the views of an output that has conjugated or negated elements");
  }
  differences.Expect(absl::StrCat("output ", index, " through ", ToString(output.view_steps)),
                     actual.ok() ? Text(*actual) : actual.status().ToString(), Text(*expected));
}

}  // namespace cotan::conformance
