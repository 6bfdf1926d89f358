// `cotan inspect`: what is in an artifact?
#ifndef COTAN_RUNTIME_TOOLS_INSPECT_H_
#define COTAN_RUNTIME_TOOLS_INSPECT_H_

#include <string>

#include "runtime/execution/program.h"

namespace cotan::tools {

// File, dynamic dimensions, states; of each method its signature, ops and
// ViewAndMutationMeta, and with `with_program` its text.
std::string InspectText(const Program& program, bool with_program);

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_INSPECT_H_
