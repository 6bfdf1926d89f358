// Size expressions as torch.export writes them.
#ifndef COTAN_AOT_FRONTEND_PT2_SYMBOLIC_H_
#define COTAN_AOT_FRONTEND_PT2_SYMBOLIC_H_

#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "base/sym_int.h"

namespace cotan::aot::pt2 {

// Parses the two forms there are: "Mul(Integer(17), Symbol('s48',
// positive=True, integer=True))" and "17*s48". `symbol_index` yields the index
// of a symbol by its name.
// InvalidArgument: not an expression. Unimplemented: a function that integers
// of a program cannot have; the message names it.
absl::StatusOr<SymInt> ParseSymbolic(absl::string_view text,
                                     absl::FunctionRef<int(absl::string_view name)> symbol_index);

}  // namespace cotan::aot::pt2

#endif  // COTAN_AOT_FRONTEND_PT2_SYMBOLIC_H_
