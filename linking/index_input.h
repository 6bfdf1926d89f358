// SPDX-License-Identifier: Apache-2.0

// The elements of a linked method's index inputs.
#ifndef COTAN_LINKING_INDEX_INPUT_H_
#define COTAN_LINKING_INDEX_INPUT_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/sym_int.h"
#include "serialization/metadata/view_step.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Files whose lists have more elements are refused before memory is allocated.
inline constexpr int64_t kMaxIndexElements = int64_t{1} << 28;

// Returns the message. `extent`: set if the list is that of a storage with `place` replaced.
serialization::IndexInput ToProto(int input, const view::AsStrided& place, const std::optional<SymInt>& extent);

// Returns the elements for these values of the symbols. InvalidArgument: more than kMaxIndexElements elements, a
// negative size, as many strides as sizes are not given, a position outside of the extent. Errors of EvaluateSize().
absl::StatusOr<std::vector<int64_t>> IndexElements(const serialization::IndexInput& index,
                                                   absl::Span<const int64_t> symbols);

}  // namespace cotan

#endif  // COTAN_LINKING_INDEX_INPUT_H_
