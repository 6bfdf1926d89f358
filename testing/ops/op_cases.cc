// SPDX-License-Identifier: Apache-2.0

#include "testing/ops/op_cases.h"

#include "testing/ops/op_case_groups.h"
#include "testing/tolerance.h"

namespace cotan::testing {

std::vector<OpCaseGroup> OpCases() {
  return {{"Pointwise", kTranscendental, PointwiseCases()},
          {"Reductions", kReduction, ReductionCases()},
          {"Composites", kReduction, CompositeCases()},
          {"FurtherComposites", kReduction, FurtherCompositeCases()},
          {"Kernels", kMatmul, KernelCases()},
          {"FurtherKernels", kMatmul, FurtherKernelCases()},
          {"ViewsAndCreation", kExact, ViewAndCreationCases()},
          {"Views", kExact, ViewCases()},
          {"Creation", kPointwise, CreationCases()},
          {"Scans", kReduction, ScanCases()},
          {"Resizes", kMatmul, ResizeCases()},
          {"EmbeddingBags", kReduction, EmbeddingBagCases()},
          {"Padding", kReduction, PaddingCases()},
          {"Windows", kMatmul, WindowCases()},
          {"FurtherIndexing", kMatmul, FurtherIndexingCases()},
          {"Sorting", kExact, SortingCases()},
          {"Special", kReduction, SpecialCases()},
          {"LinearAlgebra", kMatmul, LinearAlgebraCases()}};
}

OpCaseGroup TracedOpCases() { return {"Traced", kMatmul, RewrittenCases()}; }
OpCaseGroup RandomOpCases() { return {"Random", kExact, RandomCases()}; }
OpCaseGroup RefusedOpCases() { return {"Refused", kExact, RefusedCases()}; }

}  // namespace cotan::testing
