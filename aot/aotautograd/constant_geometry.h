// SPDX-License-Identifier: Apache-2.0

// Converts between the metadata's geometry, which may be symbolic, and constant layouts.
#ifndef COTAN_AOT_AOTAUTOGRAD_CONSTANT_GEOMETRY_H_
#define COTAN_AOT_AOTAUTOGRAD_CONSTANT_GEOMETRY_H_

#include <optional>

#include "base/dtype.h"
#include "base/layout.h"
#include "serialization/metadata/tensor_geometry.h"
#include "serialization/metadata/view_geometry.h"

namespace cotan::aot {

// Returns the geometry of a tensor with this dtype and layout.
TensorGeometry ToGeometry(DType dtype, const StridedLayout& layout);

// Returns the geometry as constants; unset if a size, a stride or the offset is symbolic.
std::optional<ViewGeometry> ToConstant(const TensorGeometry& geometry);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_CONSTANT_GEOMETRY_H_
