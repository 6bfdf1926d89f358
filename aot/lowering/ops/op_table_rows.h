// SPDX-License-Identifier: Apache-2.0

// The parts of the op table, one function per family of ops.
#ifndef COTAN_AOT_LOWERING_OPS_OP_TABLE_ROWS_H_
#define COTAN_AOT_LOWERING_OPS_OP_TABLE_ROWS_H_

#include "absl/types/span.h"
#include "aot/lowering/ops/op_row.h"

namespace cotan::aot {

absl::Span<const OpRow> PointwiseRows();
absl::Span<const OpRow> ActivationRows();
absl::Span<const OpRow> ReductionRows();
absl::Span<const OpRow> NormalizationRows();
absl::Span<const OpRow> LossRows();
absl::Span<const OpRow> ViewRows();
absl::Span<const OpRow> IndexingRows();
absl::Span<const OpRow> SearchRows();
absl::Span<const OpRow> SortingRows();
absl::Span<const OpRow> KernelRows();
absl::Span<const OpRow> CreationRows();
absl::Span<const OpRow> ScanRows();
absl::Span<const OpRow> ResizeRows();
absl::Span<const OpRow> EmbeddingBagRows();
absl::Span<const OpRow> EffectRows();
absl::Span<const OpRow> RecurrentRows();
absl::Span<const OpRow> PaddingRows();
absl::Span<const OpRow> WindowRows();
absl::Span<const OpRow> SpecialRows();
absl::Span<const OpRow> BesselRows();
absl::Span<const OpRow> GammaRows();
absl::Span<const OpRow> LinearAlgebraRows();
absl::Span<const OpRow> SpectralRows();
absl::Span<const OpRow> BoundedSizeRows();

}  // namespace cotan::aot

#endif  // COTAN_AOT_LOWERING_OPS_OP_TABLE_ROWS_H_
