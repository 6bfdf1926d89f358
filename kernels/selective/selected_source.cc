// SPDX-License-Identifier: Apache-2.0

#include "kernels/selective/selected_source.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cpu/expr/expr_kernel.h"
#include "kernels/cpu/expr/expr_needs.h"
#include "kernels/cpu/expr/tile_ops_isa.h"
#include "kernels/selective/selected_tile_ops.h"
#include "kernels/selective/selection.h"

namespace cotan::selective {
namespace {

using cpu::expr::CheckNeeds;
using cpu::expr::ExprNeeds;
using cpu::expr::Isa;

absl::Status NotLinkedError(absl::string_view what, absl::string_view library) {
  return absl::FailedPreconditionError(
      absl::StrCat(what, " is not linked: this binary has the kernels of the programs of ", library,
                   "; add this program to `programs` of that cotan_runtime()"));
}

absl::Status CheckLoops(const ExprNeeds& needs, const cpu::expr::TileOps& ops, absl::string_view library) {
  const absl::Status status = CheckNeeds(needs, ops);
  return status.ok() ? status : NotLinkedError(status.message(), library);
}

bool Has(absl::Span<const SelectedKernel> kernels, OpKind kind, DType dtype) {
  return absl::c_any_of(kernels, [&](const SelectedKernel& kernel) {
    return kernel.kind == kind && (kernel.dtype == dtype || kernel.dtype == DType::kUndefined);
  });
}

std::string NameOf(OpKind kind, DType dtype) { return absl::StrCat(OpKindName(kind), " of ", DTypeName(dtype)); }

}  // namespace

const cpu::expr::TileOps& BestSelectedTileOps() {
#ifdef __x86_64__
  const Isa isa = cpu::expr::BestIsa();
  if (isa == Isa::kAvx512) return Avx512TileOps();
  if (isa == Isa::kAvx2) return Avx2TileOps();
#endif
  return GenericTileOps();
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeSelectedExpr(const KernelRequest& request, const cpu::expr::TileOps& ops,
                                                         absl::string_view library) {
  ExprNeeds needs;
  cpu::expr::AddNeeds(request.op.expr(), needs);
  COTAN_RETURN_IF_ERROR(CheckLoops(needs, ops, library));
  return cpu::MakeExprOn(request, ops);
}

absl::Status NotLinked(const KernelRequest& request, absl::string_view library) {
  const DType dtype = request.outputs.empty() ? DType::kUndefined : request.outputs[0].dtype;
  return NotLinkedError(NameOf(request.op.kind_case(), dtype), library);
}

absl::Status RegisterKernels(absl::Span<const SelectedKernel> kernels, KernelFactory other, KernelRegistry& registry) {
  for (const OpKind kind : AllOpKinds()) {
    for (int i = static_cast<int>(DType::kBool); i <= static_cast<int>(DType::kFloat8E5m2); ++i) {
      const auto dtype = static_cast<DType>(i);
      const auto* found = absl::c_find_if(kernels, [&](const SelectedKernel& kernel) {
        return kernel.kind == kind && (kernel.dtype == dtype || kernel.dtype == DType::kUndefined);
      });
      const KernelFactory factory = found == kernels.end() ? other : found->factory;
      COTAN_RETURN_IF_ERROR(registry.Register(DeviceType::kCpu, kind, dtype, factory));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckArtifact(const serialization::Artifact& artifact, absl::Span<const SelectedKernel> kernels,
                           const cpu::expr::TileOps& ops, absl::string_view library) {
  Selection needed;
  AddArtifact(artifact, needed);
  for (const auto& [kind, dtype] : needed.kernels) {
    if (!Has(kernels, kind, dtype)) return NotLinkedError(NameOf(kind, dtype), library);
  }
  return CheckLoops(needed.loops, ops, library);
}

}  // namespace cotan::selective
