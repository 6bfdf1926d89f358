// SPDX-License-Identifier: Apache-2.0

// LinkBuilder: builds one method out of compiled methods and the arithmetic that the autograd engine does between them.
//
// The method consists of the ops of program.proto only, so that the planner plans it like a compiled one. Values are
// indices into Method.values. States of the spliced methods become inputs.
#ifndef COTAN_LINKING_LINK_BUILDER_H_
#define COTAN_LINKING_LINK_BUILDER_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/sym_int.h"
#include "serialization/metadata/view_step.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Returns a row-major type.
serialization::TensorType RowMajorType(DType dtype, absl::Span<const SymInt> sizes);

// Not thread-safe. Errors of all methods: Unimplemented for complex dtypes, whose arithmetic is not one op.
class LinkBuilder {
 public:
  using Value = uint32_t;

  // Builds a method called `name` for these values of its symbols.
  LinkBuilder(absl::string_view name, absl::Span<const int64_t> symbols);

  // Appends an input and returns its value; a dense one of this type.
  Value Input(serialization::TensorType type, absl::string_view name);
  int num_inputs() const { return method_.inputs_size(); }
  // Appends an input i64[n] with the elements of IndexElements() (index_input.h).
  Value Index(const SymInt& n, const view::AsStrided& place, const std::optional<SymInt>& extent = std::nullopt);
  // Appends a result, which is computed in row-major order.
  void Output(Value value, absl::string_view name);
  // Makes `value` the new content of method input `input`.
  void Update(int input, Value value);

  // Records that the ops of a method are spliced; `fingerprint` is MethodFingerprint() (fingerprint.h).
  void AddLinkedSource(absl::string_view method, uint64_t fingerprint);
  // The prefix of the source of the ops that follow: "net.backward".
  void SetSource(absl::string_view source) { source_ = std::string(source); }

  const serialization::TensorType& TypeOf(Value value) const;
  absl::StatusOr<SymIntVector> SizesOf(Value value) const;
  // Returns whether two sizes are equal now, and guards it unless it is so for all values of the symbols.
  absl::StatusOr<bool> Equal(const SymInt& a, const SymInt& b);

  // Return tensors of zeros, of one flag.
  absl::StatusOr<Value> Zeros(const serialization::TensorType& type);
  Value Flag(bool value);
  // Returns a + b; types are equal.
  absl::StatusOr<Value> Add(Value a, Value b);
  // Returns the value summed over broadcast dimensions to `sizes`, then cast to `dtype`. InvalidArgument: `sizes` do
  // not broadcast to the value's.
  absl::StatusOr<Value> Conform(Value value, DType dtype, absl::Span<const SymInt> sizes);
  // As Conform(), to the dtype and sizes of `type`.
  absl::StatusOr<Value> ConformTo(Value value, const serialization::TensorType& type);
  absl::StatusOr<Value> SumTo(Value value, absl::Span<const SymInt> sizes);
  // Returns a view; `sizes` are those of the result.
  absl::StatusOr<Value> View(Value value, const ViewStep& step, absl::Span<const SymInt> sizes);
  // Returns the value in the dense layout of `type`, by a copy if it is a view or has another layout.
  Value Dense(Value value, const serialization::TensorType& type);
  // Returns zeros[n] plus value[i] at index[i], for a value of rank 1.
  absl::StatusOr<Value> Scatter(Value value, Value index, const SymInt& n);

  // Returns `whole`[n] with `part`[k] written over it: element i is that of the concatenation of both at index[i].
  absl::StatusOr<Value> Replace(Value whole, const SymInt& n, Value part, const SymInt& k, Value index);

  // Appends the ops of a method and returns its outputs, dense in the types that it declares. `inputs`: by input, made
  // dense; `states`: by state read. `symbols` replace the method's. It has no copies to and from the host.
  // Unimplemented: the method has effects, updates states or inputs.
  absl::StatusOr<std::vector<Value>> Splice(const serialization::Method& method, absl::Span<const SymInt> symbols,
                                            absl::Span<const Value> inputs, absl::Span<const Value> states);

  // The method; `linked` has its guards, index inputs and sources.
  const serialization::Method& method() const { return method_; }
  serialization::Method& method() { return method_; }

 private:
  Value AddValue(serialization::TensorType type, bool is_dense);
  serialization::Op& AddOp(absl::Span<const Value> inputs, Value output, absl::string_view source);
  absl::Status CopyOp(const serialization::Op& op, absl::Span<const SymInt> symbols,
                      const serialization::Method& method, std::vector<int64_t>& value_of);

  serialization::Method method_;
  std::vector<int64_t> symbols_;
  std::vector<bool> is_dense_;  // by value; false: a view
  std::string source_;
};

// Returns InvalidArgument unless all guards hold for these values of the symbols.
absl::Status CheckGuards(const serialization::LinkedBackward& linked, absl::Span<const int64_t> symbols);

}  // namespace cotan

#endif  // COTAN_LINKING_LINK_BUILDER_H_
