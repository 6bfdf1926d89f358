// SPDX-License-Identifier: Apache-2.0

// Builds expression ops by function calls:
//
//   ExprBuilder b({2, 3}, /*reduce_dims=*/{1});
//   const int x = b.Input(0, DType::kFloat32);
//   b.Output(b.Sub(x, b.Unary(FN_REDUCE_MAX, x)));
//   serialization::Op op = b.Build();
#ifndef COTAN_KERNELS_TESTING_EXPR_BUILDER_H_
#define COTAN_KERNELS_TESTING_EXPR_BUILDER_H_

#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "serialization/schema/program.pb.h"

namespace cotan::testing {

// Builds one expression op. Methods that add an instruction return its number. Nothing is checked, so that
// tests can build invalid expressions.
class ExprBuilder {
 public:
  explicit ExprBuilder(absl::Span<const int64_t> domain, absl::Span<const int> reduce_dims = {});

  int Input(int index, DType dtype);
  int Constant(DType dtype, double value);
  int Size(DType dtype, absl::string_view size);
  int Iota(DType dtype, int dim);
  int Random(int state_input, absl::string_view slice = "");
  int Cast(int operand, DType dtype);
  // Adds a function. Its dtype is that of the last operand; bool for comparisons and predicates.
  int Apply(serialization::ScalarFn fn, std::initializer_list<int> operands);

  int Add(int a, int b) { return Apply(serialization::FN_ADD, {a, b}); }
  int Sub(int a, int b) { return Apply(serialization::FN_SUB, {a, b}); }
  int Mul(int a, int b) { return Apply(serialization::FN_MUL, {a, b}); }
  int Div(int a, int b) { return Apply(serialization::FN_DIV, {a, b}); }
  int Sum(int a) { return Apply(serialization::FN_REDUCE_SUM, {a}); }
  int Max(int a) { return Apply(serialization::FN_REDUCE_MAX, {a}); }

  void Output(int instruction);

  DType dtype(int instruction) const;
  int size() const { return op_.expr().instructions_size(); }

  // Returns the op, without operand numbers, which kernels do not read.
  serialization::Op Build() const { return op_; }
  serialization::Expr& expr() { return *op_.mutable_expr(); }

 private:
  serialization::ExprInstruction& Append(serialization::ScalarFn fn, DType dtype);
  int Last() const { return op_.expr().instructions_size() - 1; }

  serialization::Op op_;
};

// Returns one line per instruction, for failure messages.
std::string ToText(const serialization::Expr& expr);

}  // namespace cotan::testing

#endif  // COTAN_KERNELS_TESTING_EXPR_BUILDER_H_
