// SPDX-License-Identifier: Apache-2.0

// An argument of a call: a tensor, or a number for an input that is one.
#ifndef COTAN_RUNTIME_SESSION_CALL_ARGUMENT_H_
#define COTAN_RUNTIME_SESSION_CALL_ARGUMENT_H_

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <variant>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/tensor/tensor.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// A number as a caller writes it.
using NumberValue = std::variant<double, int64_t, bool>;

// Returns the tensor of a number for a method's input of this type: one without dimensions, or, for an integer that
// decides sizes (an input i64[n, 0]), an empty tensor i64[number, 0]. A double fits floating-point dtypes, an integer
// fits integers and, if they hold it exactly, floating-point dtypes, a bool fits bools. `name` is that of the input,
// for messages. InvalidArgument: the input has dimensions, or another kind of number. OutOfRange: its dtype cannot hold
// the number.
absl::StatusOr<Tensor> TensorOfNumber(NumberValue number, const serialization::TensorType& type,
                                      absl::string_view name);

// `T` is Tensor or Variable. Implicit, so that calls may be written with braces: Run("forward", {x, 0.5}).
template <typename T>
class CallArgument {
 public:
  CallArgument(T value) : value_(std::move(value)) {}
  CallArgument(bool number) : value_(NumberValue(number)) {}
  template <std::floating_point N>
  CallArgument(N number) : value_(NumberValue(static_cast<double>(number))) {}
  template <std::integral N>
  requires(!std::is_same_v<N, bool>) CallArgument(N number) : value_(NumberValue(static_cast<int64_t>(number))) {}

  // Returns the number; null for a tensor.
  const NumberValue* number() const { return std::get_if<NumberValue>(&value_); }
  // Requires number() == nullptr.
  const T& value() const { return std::get<T>(value_); }

 private:
  std::variant<T, NumberValue> value_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_SESSION_CALL_ARGUMENT_H_
