// Between the dispatcher's boxed arguments and those of graph nodes.
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

// "aten.add.Tensor", "aten.relu.default".
std::string NodeOpName(const c10::FunctionSchema& schema);

// The op of such a name, as LibTorch's dispatcher knows it.
// NotFound: it does not, or that is no such name.
absl::StatusOr<c10::OperatorHandle> FindOperator(absl::string_view op);

// `value` as an argument of a node, by the schema's `declared` argument.
// `record_tensor` is called for each defined tensor, in order.
//
// A tensor that stands for a Python or C++ number (a "wrapped number") becomes
// that number. Layouts, devices, generators and memory formats become None:
// graphs have no use for them.
// Unimplemented: a complex number, or a type that graphs do not have.
absl::StatusOr<Argument> ToArgument(const c10::IValue& value, const c10::Argument& declared,
                                    absl::FunctionRef<Argument(const at::Tensor&)> record_tensor);

// The inverse; `tensor_of` yields the tensor of a graph value. What has become
// None takes the schema's default.
// InvalidArgument: the argument does not fit the schema.
absl::StatusOr<c10::IValue> ToIValue(const Argument& argument, const c10::Argument& declared,
                                     absl::FunctionRef<at::Tensor(ValueId)> tensor_of);

// Calls `replace` on each defined tensor in `value`, also within lists, and
// stores what it returns.
void ReplaceTensors(c10::IValue& value, absl::FunctionRef<at::Tensor(const at::Tensor&)> replace);

// Calls `visit` on each defined tensor in `value`, also within lists.
void VisitTensors(const c10::IValue& value, absl::FunctionRef<void(const at::Tensor&)> visit);

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_ARGUMENT_H_
