// SPDX-License-Identifier: Apache-2.0

// Converts between the dispatcher's boxed arguments and arguments of graph nodes.
#ifndef COTAN_AOT_CAPTURE_ARGUMENT_H_
#define COTAN_AOT_CAPTURE_ARGUMENT_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "aot/ir/graph.h"

namespace c10 {
class OperatorHandle;
}

namespace cotan::aot {

// Returns the name that graph nodes have for an op: "aten.add.Tensor", "aten.relu.default" (no overload).
std::string NodeOpName(const c10::FunctionSchema& schema);

// Returns the op of a name that NodeOpName() returns, from LibTorch's dispatcher.
// NotFound: the name is not NAMESPACE.NAME.OVERLOAD, or LibTorch has no such op.
absl::StatusOr<c10::OperatorHandle> FindOperator(absl::string_view op);

inline bool AnyTensor(const at::Tensor& /*tensor*/) { return true; }

// Returns `value` as a node's argument; `declared` is its declaration in the op's schema. Calls
// `record_tensor` for each defined tensor, in order.
//
// A wrapped number (TensorImpl::is_wrapped_number()) that `is_constant` accepts becomes that number, a complex number
// the list of its two parts. Layouts, devices, generators and memory formats become None: graphs do not have them.
// Unimplemented: a type or dtype that graphs do not have.
absl::StatusOr<Argument> ToArgument(const c10::IValue& value, const c10::Argument& declared,
                                    absl::FunctionRef<Argument(const at::Tensor&)> record_tensor,
                                    absl::FunctionRef<bool(const at::Tensor&)> is_constant = AnyTensor);

// Returns the IValue of a node's argument: the inverse of ToArgument(). `tensor_of` returns the tensor of a
// graph value. None becomes the schema's default, if there is one.
// InvalidArgument: a number is symbolic.
absl::StatusOr<c10::IValue> ToIValue(const Argument& argument, const c10::Argument& declared,
                                     absl::FunctionRef<at::Tensor(ValueId)> tensor_of);

// Calls `replace` on each defined tensor in `value`, also within lists, and stores the result in its place.
void ReplaceTensors(c10::IValue& value, absl::FunctionRef<at::Tensor(const at::Tensor&)> replace);

// Calls `visit` on each defined tensor in `value`, also within lists.
void VisitTensors(const c10::IValue& value, absl::FunctionRef<void(const at::Tensor&)> visit);

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_ARGUMENT_H_
