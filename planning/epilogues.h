// SPDX-License-Identifier: Apache-2.0

// Chooses which expressions of a schedule are epilogues of matrix products, for devices on which a launch costs as much
// as a small op.
#ifndef COTAN_PLANNING_EPILOGUES_H_
#define COTAN_PLANNING_EPILOGUES_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "planning/schedule.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Splits matmuls with an epilogue into a matmul and an expression, except small ones (IsSmallProduct()), and makes the
// only reader of a small product its epilogue if it is an expression: XLA's fusion of a GEMM with its consumer. The
// values have the same bits as those of separate kernels of the same product.
//
// Of an expression with reductions, those outputs become an epilogue that are elementwise, if the others need the
// product by way of them alone and no later step reads the others. The rest stays an expression, which can wait: so a
// backward that goes on with an activation's gradient does not wait for the update of a bias.
// `symbols` as for MakeSchedule().
// Errors of TakeApartMatmul() and ResolveExpr().
absl::Status PlaceEpilogues(const serialization::Method& method, absl::Span<const int64_t> symbols, Schedule& schedule);

// Returns the index of the first buffer with the same memory, by buffer: those of one state, argument or result share
// it.
std::vector<int> FindSharedMemory(const Schedule& schedule);

}  // namespace cotan

#endif  // COTAN_PLANNING_EPILOGUES_H_
