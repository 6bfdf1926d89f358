// SPDX-License-Identifier: Apache-2.0

#include "aot/ir/prim_ops.h"

#include "absl/algorithm/container.h"

namespace cotan::aot {
namespace {

constexpr absl::string_view kViews[] = {
    "prim.view",       "prim.permute",  "prim.expand", "prim.slice",        "prim.select",
    "prim.as_strided", "prim.diagonal", "prim.unfold", "prim.view_as_real", "prim.view_as_complex",
};
constexpr absl::string_view kPools[] = {
    "prim.max_pool",
    "prim.max_pool_backward",
    "prim.avg_pool",
    "prim.avg_pool_backward",
};
constexpr absl::string_view kRecurrent[] = {"prim.recurrent", "prim.recurrent_backward"};

}  // namespace

bool IsViewOp(absl::string_view op) { return absl::c_linear_search(kViews, op); }
bool IsPoolOp(absl::string_view op) { return absl::c_linear_search(kPools, op); }
bool IsRecurrentOp(absl::string_view op) { return absl::c_linear_search(kRecurrent, op); }

}  // namespace cotan::aot
