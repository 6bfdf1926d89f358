// SPDX-License-Identifier: Apache-2.0

// Builds small artifacts by function calls, and programs that tests of the runtime share.
#ifndef COTAN_RUNTIME_TESTING_PROGRAM_BUILDER_H_
#define COTAN_RUNTIME_TESTING_PROGRAM_BUILDER_H_

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "kernels/testing/expr_builder.h"
#include "runtime/execution/program.h"
#include "runtime/testing/test_kernels.h"  // IWYU pragma: export
#include "serialization/container/container.h"
#include "serialization/schema/program.pb.h"

namespace cotan::testing {

using Sizes = std::vector<std::string>;  // size expressions

serialization::TensorType TypeOf(DType dtype, const Sizes& sizes);

// Adds values and ops to one method. Methods that return a number return the index of a new value. Nothing is
// checked.
class MethodBuilder {
 public:
  explicit MethodBuilder(serialization::Method& method) : method_(method) {}

  uint32_t Input(absl::string_view name, DType dtype, const Sizes& sizes);
  uint32_t Read(uint32_t state, DType dtype, const Sizes& sizes);
  void Update(uint32_t state, uint32_t value);
  void Output(absl::string_view name, uint32_t value);

  uint32_t AddValue(DType dtype, const Sizes& sizes);
  // Appends `op` with these operands.
  serialization::Op& AddOp(serialization::Op op, const std::vector<uint32_t>& inputs,
                           const std::vector<uint32_t>& outputs);

  // Adds an expression with one full output over `sizes`. `instructions` appends to the builder, in which
  // instruction i loads input i, and returns the number of the instruction whose value is stored.
  template <typename F>
  uint32_t Pointwise(const Sizes& sizes, const std::vector<uint32_t>& inputs, F instructions) {
    ExprBuilder builder({});
    for (size_t i = 0; i < inputs.size(); ++i) builder.Input(static_cast<int>(i), DTypeOf(inputs[i]));
    const int result = instructions(builder);
    builder.Output(result);
    for (const std::string& size : sizes) builder.expr().add_domain_sizes(size);
    const uint32_t output = AddValue(builder.dtype(result), sizes);
    AddOp(builder.Build(), inputs, {output});
    return output;
  }
  uint32_t Permute(uint32_t value, const std::vector<uint32_t>& dims);
  uint32_t View(uint32_t value, const Sizes& sizes);
  uint32_t Matmul(uint32_t a, uint32_t b, const Sizes& sizes);
  // Adds a sum over dimension `dim`, which is kept with size 1.
  uint32_t Sum(uint32_t value, int dim);

  DType DTypeOf(uint32_t value) const;
  Sizes SizesOf(uint32_t value) const;
  serialization::Method& proto() { return method_; }

 private:
  serialization::Method& method_;
};

class ProgramBuilder {
 public:
  // Add a row-major state with an initial value and return its index.
  uint32_t AddState(absl::string_view name, serialization::State::Role role, DType dtype, const Sizes& sizes,
                    double fill);
  uint32_t AddState(absl::string_view name, serialization::State::Role role, const Sizes& sizes,
                    const std::vector<float>& values);
  MethodBuilder AddMethod(absl::string_view name);
  serialization::Artifact& artifact() { return artifact_; }
  ArtifactWriter& writer() { return writer_; }

  // Returns the bytes of the file. The builder must not be used afterwards.
  std::string Bytes();
  // Loads the program; the test fails if that fails.
  std::shared_ptr<const Program> Load();

 private:
  ArtifactWriter writer_;
  serialization::Artifact artifact_;
};

// Returns a program that trains one linear layer on mean squared error:
//   states  "weight" f32[2,3], "bias" f32[2], "optimizer.weight.momentum"
//           f32[2,3], "step" i64[], "hyperparameter.lr.0" f32[], "rng"
//   train_step(input f32[batch,3], target f32[batch,2]) -> loss f32[]
//           SGD with momentum 0.5 on the weight, without on the bias; counts
//           steps; moves the generator by 2 blocks and adds a draw from it to
//           the bias' gradient, scaled by 1e-3
//   eval(input) -> prediction f32[batch,2]
//   forward(input) -> prediction, [saved input]; backward(tangent) -> gradients
//           "weight", "bias"
// `batch` is the dynamic dimension s0 in [1, 64], or, if `static_batch` > 0, that constant.
ProgramBuilder LinearRegression(int static_batch = 0);

}  // namespace cotan::testing

#endif  // COTAN_RUNTIME_TESTING_PROGRAM_BUILDER_H_
