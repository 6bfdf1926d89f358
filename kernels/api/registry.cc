#include "kernels/api/registry.h"

#include <array>

#include "absl/strings/str_cat.h"

namespace cotan {
namespace {

using serialization::Op;

struct NamedKind {
  OpKind kind;
  absl::string_view name;
};

constexpr std::array kKinds = {
    NamedKind{Op::kExpr, "expr"},
    NamedKind{Op::kCopy, "copy"},
    NamedKind{Op::kMatmul, "matmul"},
    NamedKind{Op::kConvolution, "convolution"},
    NamedKind{Op::kConvolutionBackwardInput, "convolution_backward_input"},
    NamedKind{Op::kConvolutionBackwardWeight, "convolution_backward_weight"},
    NamedKind{Op::kMaxPool, "max_pool"},
    NamedKind{Op::kMaxPoolBackward, "max_pool_backward"},
    NamedKind{Op::kAvgPool, "avg_pool"},
    NamedKind{Op::kAvgPoolBackward, "avg_pool_backward"},
    NamedKind{Op::kGather, "gather"},
    NamedKind{Op::kScatterAdd, "scatter_add"},
    NamedKind{Op::kConcat, "concat"},
    NamedKind{Op::kAttention, "attention"},
    NamedKind{Op::kAttentionBackward, "attention_backward"},
    NamedKind{Op::kCheckedIndex, "checked_index"},
};

constexpr auto kKindList = [] {
  std::array<OpKind, kKinds.size()> kinds{};
  for (size_t i = 0; i < kKinds.size(); ++i) kinds[i] = kKinds[i].kind;
  return kinds;
}();

}  // namespace

absl::string_view OpKindName(OpKind kind) {
  if (kind == Op::kView) return "view";
  for (const NamedKind& named : kKinds) {
    if (named.kind == kind) return named.name;
  }
  return "unset";
}

absl::Span<const OpKind> AllOpKinds() { return kKindList; }

absl::Status KernelRegistry::Register(DeviceType device, OpKind kind, DType dtype, KernelFactory factory) {
  if (factories_.try_emplace(Key{device, kind, dtype}, factory).second) return absl::OkStatus();
  return absl::AlreadyExistsError(absl::StrCat("two ", DeviceTypeName(device), " kernels for ", OpKindName(kind),
                                               " of ", DTypeName(dtype), ": register one backend per device"));
}

absl::StatusOr<KernelFactory> KernelRegistry::Find(DeviceType device, OpKind kind, DType dtype) const {
  const auto found = factories_.find(Key{device, kind, dtype});
  if (found != factories_.end()) return found->second;
  return absl::NotFoundError(absl::StrCat("no ", DeviceTypeName(device), " kernel for ", OpKindName(kind), " of ",
                                          DTypeName(dtype), ": link a backend that has it (kernels/",
                                          DeviceTypeName(device), ":register_", DeviceTypeName(device), ")"));
}

}  // namespace cotan
