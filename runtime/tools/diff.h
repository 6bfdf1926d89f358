// SPDX-License-Identifier: Apache-2.0

// `cotan diff`: describes what differs between two artifacts.
#ifndef COTAN_RUNTIME_TOOLS_DIFF_H_
#define COTAN_RUNTIME_TOOLS_DIFF_H_

#include <string>

#include "runtime/execution/program.h"

namespace cotan::tools {

// Returns a line for each difference between `a` and `b`: dynamic dimensions, states (type, role, initial bytes),
// methods (signature, ops, plan, ViewAndMutationMeta, other fields), recorded runs and kernels for GPUs; "" if the
// artifacts are equal. The producer and the places of bytes in the file are not compared. Lines that begin with "-" are
// in `a` only, with "+" in `b` only. An op that reads other values than its counterpart is "~".
std::string DiffText(const Program& a, const Program& b);

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_DIFF_H_
