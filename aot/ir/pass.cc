// SPDX-License-Identifier: Apache-2.0

#include "aot/ir/pass.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "aot/ir/verifier.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

absl::Status Annotate(const absl::Status& status, absl::string_view when) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(when, ": ", status.message()));
}

}  // namespace

PassPipeline& PassPipeline::Add(std::string pass_name, PassFunction function) {
  passes_.push_back({std::move(pass_name), std::move(function)});
  return *this;
}

absl::StatusOr<bool> PassPipeline::Run(Graph& graph) const {
  COTAN_RETURN_IF_ERROR(Annotate(VerifyGraph(graph), absl::StrCat("before ", name_)));
  bool any_change = false;
  for (size_t i = 0; i < passes_.size(); ++i) {
    const absl::StatusOr<bool> changed = passes_[i].function(graph);
    COTAN_RETURN_IF_ERROR(Annotate(changed.status(), passes_[i].name));
    if (!*changed) continue;
    any_change = true;
    COTAN_RETURN_IF_ERROR(Annotate(VerifyGraph(graph), absl::StrCat("after ", name_, ".", passes_[i].name)));
    if (dump_) dump_(absl::StrFormat("%s.%02d.%s", name_, i, passes_[i].name), graph);
  }
  return any_change;
}

}  // namespace cotan::aot
