// The ops that Cotan supports: one row per aten op, the single list from which
// lowering, the refusal of unsupported ops at compile time, the op tests and
// the support matrix come. Rows live in op_table_*.cc, by family; adding an op
// is adding a row (docs/adding_an_op.md).
#ifndef COTAN_AOT_LOWER_OP_TABLE_H_
#define COTAN_AOT_LOWER_OP_TABLE_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "aot/graph/graph.h"

namespace cotan::aot {

class Lowering;

// How a row is computed.
enum class OpFamily : uint8_t {
  kPointwise,  // a scalar function for the expression engine
  kReduction,  // a reduction for the expression engine
  kComposite,  // several expressions: softmax, normalisation, losses
  kView,       // no data moves
  kKernel,     // an op of the runtime with its own kernel
  kCreation,   // constants, ranges, random draws
};

// Emits what replaces one aten node (aot/lower/lowering.h).
using LowerFunction = absl::Status (*)(Lowering& lowering);

struct OpRow {
  absl::string_view op;  // "aten.add.Tensor"
  OpFamily family;
  LowerFunction lower;
};

// All rows, sorted by op.
absl::Span<const OpRow> OpTable();

// Null if there is none.
const OpRow* FindOp(absl::string_view op);

// Whether `op` ("aten.add.Tensor", "cotan.random_uniform.default") can be compiled.
bool IsSupported(absl::string_view op);

// The ops of `graph` that cannot be compiled, each once, sorted.
std::vector<std::string> UnsupportedOps(const Graph& graph);

}  // namespace cotan::aot

#endif  // COTAN_AOT_LOWER_OP_TABLE_H_
