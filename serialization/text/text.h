// SPDX-License-Identifier: Apache-2.0

// Text form of artifacts, for dumps and tests.
//
//   method @train_step(%0: f32[s0,3] "input", %1: f32[s0,2] "target") {
//     %2: f32[2,3] = state "weight"
//     %8: f32[3,2] = view(%2) permute(1, 0)
//     %9: f32[s0,2] = matmul(%0, %8)  // aten.linear fc1
//     %10: f32[s0,2] = expr(%9, %3) over [s0,2]
//       0: f32 = input 0
//       1: f32 = input 1
//       2: f32 = add 0, 1
//       store 2
//     state "weight" = %20
//     return %15 "loss"
//   }
#ifndef COTAN_SERIALIZATION_TEXT_TEXT_H_
#define COTAN_SERIALIZATION_TEXT_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// All functions require artifacts that passed VerifyArtifact().

// Returns the lines "0: f32 = input 0" ... "store 2", each with `indent` in front and a newline at the end.
std::string ExprText(const serialization::Expr& expr, absl::string_view indent);

// Returns one method in the form above.
std::string MethodText(const serialization::Artifact& artifact, const serialization::Method& method);

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_TEXT_TEXT_H_
