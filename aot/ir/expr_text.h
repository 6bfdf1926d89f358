// SPDX-License-Identifier: Apache-2.0

// Text form of an expression program, one line per instruction:
//
//   domain [32,10] reduce [1]
//   0: f32 = input 0
//   1: f32 = reduce_max 0
//   2: f32 = sub 0 1
//   3: f32 = constant 0.5
//   4: f32 = mul 2 3
//   5: f32 = size (s0 * 4)
//   6: i32 = iota 1
//   7: f32 = random_uniform 1 slice 128
//   store 4
#ifndef COTAN_AOT_IR_EXPR_TEXT_H_
#define COTAN_AOT_IR_EXPR_TEXT_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "serialization/schema/expr.pb.h"

namespace cotan::aot {

// Returns the name of a scalar function, such as "reduce_max"; "" if this build does not define it.
std::string ScalarFnName(serialization::ScalarFn fn);

// Returns the lines of the text form, each with the prefix `indent` and a newline at its end.
std::string PrintExpr(const serialization::Expr& expr, absl::string_view indent = "");

// Parses the lines of a program, without newlines.
// InvalidArgument: a line does not parse; the message names it and the reason.
absl::StatusOr<serialization::Expr> ParseExpr(absl::Span<const absl::string_view> lines);

// Returns the shortest text that reads back as the same number. It contains a '.', an 'e', "inf" or
// "nan", which distinguishes it from an integer.
std::string PrintDouble(double value);

inline serialization::DTypeProto ToProto(DType dtype) { return static_cast<serialization::DTypeProto>(dtype); }
inline DType FromProto(serialization::DTypeProto dtype) { return static_cast<DType>(dtype); }

}  // namespace cotan::aot

#endif  // COTAN_AOT_IR_EXPR_TEXT_H_
