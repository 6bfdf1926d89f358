// SPDX-License-Identifier: Apache-2.0

// Fields of a method that hold size expressions.
#ifndef COTAN_AOT_DYNAMIC_SIZE_FIELDS_H_
#define COTAN_AOT_DYNAMIC_SIZE_FIELDS_H_

#include <string>
#include <vector>

#include "serialization/schema/program.pb.h"

namespace cotan::aot {

struct SizeField {
  std::string* text = nullptr;  // a size expression in text form, or "" for none
  std::string where;            // for messages: "op 3 (convolution) from layer1.0"
};

// Returns all size expressions of a method, in a fixed order, except constants of expression
// programs and integer outputs. The pointers point into `method`.
std::vector<SizeField> SizeFieldsOf(serialization::Method& method);

// Returns text such as "op 3 (convolution) from layer1.0".
std::string OpText(const serialization::Method& method, int op);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DYNAMIC_SIZE_FIELDS_H_
