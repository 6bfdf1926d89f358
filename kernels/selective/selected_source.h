// SPDX-License-Identifier: Apache-2.0

// Parts that the sources of selection.h have in common, besides their tables. Only they include this header.
#ifndef COTAN_KERNELS_SELECTIVE_SELECTED_SOURCE_H_
#define COTAN_KERNELS_SELECTIVE_SELECTED_SOURCE_H_

#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/api/kernel.h"
#include "kernels/api/registry.h"
#include "kernels/cpu/attention/attention.h"
#include "kernels/cpu/copy/copy.h"
#include "kernels/cpu/expr/tile_ops.h"
#include "kernels/cpu/half_precision/half_precision.h"
#include "kernels/cpu/indexing/checked_index.h"
#include "kernels/cpu/indexing/gather.h"
#include "kernels/cpu/linear_algebra/linear_algebra.h"
#include "kernels/cpu/matmul/matmul_epilogue.h"
#include "kernels/cpu/pool/pool.h"
#include "kernels/cpu/portable/portable.h"
#include "kernels/cpu/recurrent/recurrent.h"
#include "kernels/cpu/scan/scan.h"
#include "kernels/cpu/sort/sort.h"
#include "kernels/selective/selected_kernels.h"

namespace cotan::selective {

// A row of the table of kernels; `dtype` kUndefined stands for all.
struct SelectedKernel {
  OpKind kind;
  DType dtype;
  KernelFactory factory;
};

// Returns the loops of the target for this processor.
const cpu::expr::TileOps& BestSelectedTileOps();

// Makes the kernel of an expression with `ops`. FailedPrecondition: it needs a loop that `ops` lacks; the message has
// `library`, the label of the cotan_runtime() target. Errors of MakeExprOn().
absl::StatusOr<std::unique_ptr<Kernel>> MakeSelectedExpr(const KernelRequest& request, const cpu::expr::TileOps& ops,
                                                         absl::string_view library);

// Returns the error for an op that is not linked.
absl::Status NotLinked(const KernelRequest& request, absl::string_view library);

// Factories of matmul, with epilogues made by `kExpr`.
template <typename T, KernelFactory kExpr>
absl::StatusOr<std::unique_ptr<Kernel>> MakeMatmul(const KernelRequest& request) {
  if (!request.op.matmul().has_epilogue()) return cpu::MakePortableProductOf<T>(request);
  return cpu::MakeMatmulEpilogueWith(request, cpu::MakePortableProductOf<T>, kExpr);
}
template <KernelFactory kExpr>
absl::StatusOr<std::unique_ptr<Kernel>> MakeHalfMatmul(const KernelRequest& request) {
  if (request.op.matmul().has_epilogue()) {
    return cpu::MakeMatmulEpilogueWith(request, MakeHalfMatmul<kExpr>, kExpr);
  }
  return cpu::MakeWidenedKernel(request, cpu::MakePortableProductOf<float>);
}

// Registers `kernels`, and `other` for the ops and dtypes that they lack.
// AlreadyExists: `registry` already has CPU kernels.
absl::Status RegisterKernels(absl::Span<const SelectedKernel> kernels, KernelFactory other, KernelRegistry& registry);

// See CheckSelectedKernels().
absl::Status CheckArtifact(const serialization::Artifact& artifact, absl::Span<const SelectedKernel> kernels,
                           const cpu::expr::TileOps& ops, absl::string_view library);

}  // namespace cotan::selective

#endif  // COTAN_KERNELS_SELECTIVE_SELECTED_SOURCE_H_
