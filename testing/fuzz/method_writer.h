// SPDX-License-Identifier: Apache-2.0

// Writes one method of a random program: values with their types, and ops that fit them.
//
// Elements are small integers, so that kernels which add in different orders return the same values: each value has a
// bound of its elements, and ops whose results grow take operands of small bounds.
#ifndef COTAN_TESTING_FUZZ_METHOD_WRITER_H_
#define COTAN_TESTING_FUZZ_METHOD_WRITER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/dtype.h"
#include "base/sym_int.h"
#include "runtime/testing/program_builder.h"
#include "testing/fuzz/choices.h"

namespace cotan::testing {

using SymSizes = std::vector<SymInt>;

struct TypedValue {
  uint32_t id = 0;  // index into Method.values
  DType dtype = DType::kUndefined;
  SymSizes sizes;
  double bound = 0;  // of the absolute value of its elements, which are integers
};

// Values of the dynamic dimension s0 are at most this.
inline constexpr int64_t kMaxSymbol = 4;
inline constexpr int64_t kMaxValueElements = 2000;  // of one value
// Integers below it are exact in f32, also after a few additions.
inline constexpr double kMaxBound = 1 << 20;
// Bound of arguments and states, and of results of ClampedBound().
inline constexpr double kInitialBound = 3;
inline constexpr int kClampModulus = 8;
inline constexpr double kClampedBound = kClampModulus - 1;

// Returns the number of elements for the largest dynamic dimension.
int64_t MaxElements(const SymSizes& sizes);
bool IsConstant(const SymSizes& sizes);
Sizes TextOf(const SymSizes& sizes);

// States that the methods of a program share. Their sizes are constant.
struct SharedState {
  uint32_t index = 0;  // in the artifact
  DType dtype = DType::kUndefined;
  SymSizes sizes;
};

class MethodWriter {
 public:
  // All outlive the object.
  MethodWriter(ProgramBuilder& program, const std::string& name, std::vector<SharedState>& states, Choices& choices)
      : program_(program), builder_(program.AddMethod(name)), states_(states), choices_(choices) {}

  Choices& choices() { return choices_; }
  MethodBuilder& builder() { return builder_; }
  const std::vector<TypedValue>& values() const { return values_; }
  const std::vector<TypedValue>& inputs() const { return inputs_; }

  SymSizes RandomSizes();
  DType RandomDType();

  // Adds an argument.
  TypedValue Input(DType dtype, const SymSizes& sizes);
  // Reads a state; the same value at each call.
  TypedValue Read(const SharedState& state);
  // Adds a state and reads it.
  TypedValue NewState(DType dtype, const SymSizes& sizes);
  // Returns any of the values that `fits`; none if there is none.
  std::optional<TypedValue> Find(absl::FunctionRef<bool(const TypedValue&)> fits);
  // Returns any value. There is one.
  TypedValue Any();
  // Returns a value of this type and of a bound that is not greater; it is a new argument or state if there is none.
  TypedValue Operand(DType dtype, const SymSizes& sizes, double bound);

  // Declares the result of an op, in a random order of its dimensions in memory.
  TypedValue Result(DType dtype, const SymSizes& sizes, double bound);
  void Add(serialization::Op op, const std::vector<TypedValue>& inputs, const std::vector<TypedValue>& outputs);
  // Returns the remainder of the elements by kClampModulus if the bound is above `bound`, else the value.
  TypedValue Clamped(const TypedValue& value, double bound);

 private:
  ProgramBuilder& program_;
  MethodBuilder builder_;
  std::vector<SharedState>& states_;
  Choices& choices_;
  std::vector<TypedValue> values_;
  std::vector<TypedValue> inputs_;
  std::map<uint32_t, TypedValue> reads_;  // by state
};

}  // namespace cotan::testing

#endif  // COTAN_TESTING_FUZZ_METHOD_WRITER_H_
