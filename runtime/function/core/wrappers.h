// SPDX-License-Identifier: Apache-2.0

// Flattening and rebuilding of wrapper-typed tensors (wrappers/wrapper_type.h) over Variables, as by
// AOTDispatchSubclassWrapper (unwrap_tensor_subclasses() and wrap_tensor_subclasses() in subclass_utils.py).
#ifndef COTAN_RUNTIME_FUNCTION_CORE_WRAPPERS_H_
#define COTAN_RUNTIME_FUNCTION_CORE_WRAPPERS_H_

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

// Appends the tensors of `value` to `flat`, attributes in order, depth first. InvalidArgument: the wrapper type, the
// attributes or the metadata of `value` differ from `meta`; the message begins with `name` and the path of the
// attribute: "'q.a' ...".
absl::Status FlattenAs(const FlatMeta& meta, const WrappedVariable& value, const std::string& name,
                       std::vector<Variable>& flat);

// Returns the tensor that `meta` describes, built from the first FlatCount(meta) entries of `flat`. `symbols`: the
// values of the program's dynamic dimensions, for the outer sizes.
WrappedVariable RewrapAs(const FlatMeta& meta, absl::Span<const Variable> flat, absl::Span<const int64_t> symbols);

// Returns a tensor of the same wrapper type made of grad() of each tensor of `value`, undefined where there is none.
WrappedVariable GradientOf(const WrappedVariable& value);

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_CORE_WRAPPERS_H_
