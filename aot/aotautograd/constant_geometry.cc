// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/constant_geometry.h"

#include <cstdint>

#include "absl/types/span.h"

namespace cotan::aot {
namespace {

SymIntVector ToSymInts(absl::Span<const int64_t> values) { return SymIntVector(values.begin(), values.end()); }

}  // namespace

TensorGeometry ToGeometry(DType dtype, const StridedLayout& layout) {
  return {dtype, ToSymInts(layout.sizes), ToSymInts(layout.strides), SymInt(layout.offset)};
}

std::optional<ViewGeometry> ToConstant(const TensorGeometry& geometry) {
  ViewGeometry constant = {geometry.dtype, {}};
  const auto copy = [](const SymIntVector& from, auto& to) {
    for (const SymInt& value : from) {
      if (!value.is_constant()) return false;
      to.push_back(value.constant());
    }
    return true;
  };
  if (!copy(geometry.sizes, constant.layout.sizes) || !copy(geometry.strides, constant.layout.strides)) return {};
  if (!geometry.offset.is_constant()) return {};
  constant.layout.offset = geometry.offset.constant();
  return constant;
}

}  // namespace cotan::aot
