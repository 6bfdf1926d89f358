// Tensors of wrapper types (wrappers/wrapper_type.h) over Variables: how calls
// take them apart and put them together.
#ifndef COTAN_RUNTIME_FUNCTION_WRAPPERS_H_
#define COTAN_RUNTIME_FUNCTION_WRAPPERS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/autograd/variable.h"
#include "serialization/metadata/wrapper_meta.h"
#include "wrappers/wrapped.h"

namespace cotan {

using WrappedVariable = Wrapped<Variable>;

// Appends the tensors of `value` if it is made as `meta` says.
// InvalidArgument: it is not; the message begins with `name`, followed by the
// attribute: "'q.a': ...".
absl::Status FlattenAs(const FlatMeta& meta, const WrappedVariable& value, const std::string& name,
                       std::vector<Variable>& flat);

// The inverse: takes the first FlatCount(meta) of `flat`. `symbols`: the values of
// the program's dynamic dimensions.
WrappedVariable RewrapAs(const FlatMeta& meta, absl::Span<const Variable> flat, absl::Span<const int64_t> symbols);

// The gradients that backwards have left in its tensors, put together in the same
// way; undefined where there is none.
WrappedVariable GradientOf(const WrappedVariable& value);

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_WRAPPERS_H_
