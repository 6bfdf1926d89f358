// SPDX-License-Identifier: Apache-2.0

// CUDA C++ of single values of expressions: types, literals, scalar functions.
#ifndef COTAN_KERNELS_CUDA_EXPR_NODE_TEXT_H_
#define COTAN_KERNELS_CUDA_EXPR_NODE_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "kernels/api/expr_program.h"

namespace cotan::cuda::expr {

// Returns the type of elements in memory: "bfloat16".
absl::string_view ElementType(DType dtype);

// Returns the type in which a kernel holds values: "float" for f16, bf16 and f32.
absl::string_view ValueType(DType dtype);

// Returns the bytes of a value in registers.
int64_t ValueBytes(DType dtype);

// Returns the value of a FN_CONSTANT or FN_SIZE node, rounded to its dtype.
std::string ConstantText(const ExprNode& node);

// Returns the value of `dtype` at integer position `position`, as FN_IOTA.
std::string PositionText(DType dtype, absl::string_view position);

// Returns true if a cast between the dtypes leaves a held value as it is.
bool CastIsIdentity(DType from, DType to);

// Returns the value of `node`, neither a leaf nor a reduction, for the values `operands`, of `operand_dtype` (that of
// the last operand), rounded to the node's dtype.
std::string FunctionText(const ExprNode& node, DType operand_dtype, absl::Span<const std::string> operands);

// Returns `value`, a float of an f16 or bf16 node, rounded to the dtype; of other dtypes `value`.
std::string RoundedText(DType dtype, std::string value);

// Returns the type of a reduction in reduce.cuh: "Sum<float>".
std::string ReductionType(const ExprNode& node);

// Returns the type of its totals.
absl::string_view TotalType(DType dtype);
int64_t TotalBytes(DType dtype);

// Returns true if the function is in math_special.cuh.
bool IsSpecial(serialization::ScalarFn fn, DType dtype);

}  // namespace cotan::cuda::expr

#endif  // COTAN_KERNELS_CUDA_EXPR_NODE_TEXT_H_
