// SPDX-License-Identifier: Apache-2.0

// Which inputs of an expression program each of its outputs is computed from.
#ifndef COTAN_SERIALIZATION_SCHEMA_EXPR_INPUTS_H_
#define COTAN_SERIALIZATION_SCHEMA_EXPR_INPUTS_H_

#include <cstdint>
#include <vector>

#include "serialization/schema/expr.pb.h"

namespace cotan {

// Returns, for each output of a valid `expr`, the ascending indexes of the op inputs that its instructions reach.
std::vector<std::vector<uint32_t>> InputsOfOutputs(const serialization::Expr& expr);

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_SCHEMA_EXPR_INPUTS_H_
