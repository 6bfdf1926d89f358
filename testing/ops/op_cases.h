// SPDX-License-Identifier: Apache-2.0

// Lists example arguments of ops whose arguments cannot be guessed from the schema (schema_arguments.h).
#ifndef COTAN_TESTING_OPS_OP_CASES_H_
#define COTAN_TESTING_OPS_OP_CASES_H_

#include <ostream>
#include <string>
#include <vector>

#include "testing/ops/op_arguments.h"

namespace cotan::testing {

struct OpCase {
  std::string op;  // "add.Tensor", without "aten."
  std::vector<Arg> arguments;
};

struct OpCaseGroup {
  std::string name;
  double tolerance;  // testing/tolerance.h
  std::vector<OpCase> cases;
};

// Prints the name in messages of tests.
inline void PrintTo(const OpCaseGroup& group, std::ostream* out) { *out << group.name; }

// Returns cases of ops that have rows.
std::vector<OpCaseGroup> OpCases();
// Returns cases of ops that are rewritten while tracing, and of random ops, whose results cannot be
// compared.
OpCaseGroup TracedOpCases();
OpCaseGroup RandomOpCases();
// Returns cases of ops that the compiler rejects.
OpCaseGroup RefusedOpCases();

}  // namespace cotan::testing

#endif  // COTAN_TESTING_OPS_OP_CASES_H_
