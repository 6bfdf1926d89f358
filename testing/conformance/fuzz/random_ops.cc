// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/fuzz/random_ops.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"

namespace cotan::conformance {
namespace {

using Tensors = std::vector<at::Tensor>;
using Numbers = std::vector<int64_t>;

// --- Further arguments ------------------------------------------------------------

std::optional<Numbers> None(const at::Tensor&, std::mt19937_64&) { return Numbers(); }
std::optional<Numbers> SmallFactor(const at::Tensor&, std::mt19937_64& random) { return Numbers{Below(3, random) - 1}; }
std::optional<Numbers> Rank2(const at::Tensor& tensor, std::mt19937_64&) {
  if (tensor.sizes().size() != 2) return std::nullopt;
  return Numbers();
}
std::optional<Numbers> NewDim(const at::Tensor& tensor, std::mt19937_64& random) {
  if (tensor.sizes().size() > 2) return std::nullopt;
  return Numbers{Below(static_cast<int64_t>(tensor.sizes().size()) + 1, random)};
}
std::optional<Numbers> DimAndIndex(const at::Tensor& tensor, std::mt19937_64& random) {
  if (tensor.sizes().empty()) return std::nullopt;
  const int64_t dim = Below(static_cast<int64_t>(tensor.sizes().size()), random);
  const int64_t size = tensor.sizes()[static_cast<size_t>(dim)];
  if (size == 0) return std::nullopt;
  return Numbers{dim, Below(size, random)};
}
std::optional<Numbers> DimAndRange(const at::Tensor& tensor, std::mt19937_64& random) {
  if (tensor.sizes().empty()) return std::nullopt;
  const int64_t dim = Below(static_cast<int64_t>(tensor.sizes().size()), random);
  const int64_t size = tensor.sizes()[static_cast<size_t>(dim)];
  if (size < 2) return std::nullopt;
  const int64_t start = Below(size - 1, random);
  return Numbers{dim, start, start + 1 + Below(size - start, random)};
}
std::optional<Numbers> Dim(const at::Tensor& tensor, std::mt19937_64& random) {
  if (tensor.sizes().empty()) return std::nullopt;
  return Numbers{Below(static_cast<int64_t>(tensor.sizes().size()), random)};
}

std::optional<Numbers> LongDim(const at::Tensor& tensor, std::mt19937_64& random) {
  if (tensor.sizes().empty()) return std::nullopt;
  const int64_t dim = Below(static_cast<int64_t>(tensor.sizes().size()), random);
  if (tensor.sizes()[static_cast<size_t>(dim)] < 2) return std::nullopt;
  return Numbers{dim};
}
std::optional<Numbers> LongDimAndHalf(const at::Tensor& tensor, std::mt19937_64& random) {
  const std::optional<Numbers> dim = LongDim(tensor, random);
  if (!dim.has_value()) return std::nullopt;
  return Numbers{(*dim)[0], Below(2, random)};
}
std::optional<Numbers> TwoDims(const at::Tensor& tensor, std::mt19937_64& random) {
  if (tensor.sizes().empty()) return std::nullopt;
  const int64_t rank = static_cast<int64_t>(tensor.sizes().size());
  return Numbers{Below(rank, random), Below(rank, random)};
}
std::optional<Numbers> Order(const at::Tensor& tensor, std::mt19937_64& random) {
  Numbers order(tensor.sizes().size());
  std::iota(order.begin(), order.end(), 0);
  for (size_t i = order.size(); i > 1; --i) {
    std::swap(order[i - 1], order[static_cast<size_t>(Below(static_cast<int64_t>(i), random))]);
  }
  return order;
}
std::optional<Numbers> Repeats(const at::Tensor& tensor, std::mt19937_64& random) {
  if (tensor.sizes().size() > 2) return std::nullopt;
  return Numbers{1 + Below(3, random)};
}
std::optional<Numbers> AtLeastRank1(const at::Tensor& tensor, std::mt19937_64&) {
  if (tensor.sizes().empty()) return std::nullopt;
  return Numbers();
}
std::optional<Numbers> AtLeastRank2(const at::Tensor& tensor, std::mt19937_64&) {
  if (tensor.sizes().size() < 2) return std::nullopt;
  return Numbers();
}

std::optional<Numbers> Window(const at::Tensor& tensor, std::mt19937_64& random) {
  const std::optional<Numbers> dim = LongDim(tensor, random);
  if (!dim.has_value()) return std::nullopt;
  const int64_t size = tensor.sizes()[static_cast<size_t>((*dim)[0])];
  return Numbers{(*dim)[0], 1 + Below(size, random), 1 + Below(2, random)};
}

// Returns {rank, sizes, strides, offset} within the tensor's memory.
std::optional<Numbers> Place(const at::Tensor& tensor, std::mt19937_64& random) {
  int64_t room = static_cast<int64_t>(tensor.storage().nbytes() / tensor.element_size()) - 1;
  if (room < 0) return std::nullopt;
  const int64_t rank = Below(3, random);
  Numbers sizes;
  Numbers strides;
  for (int64_t i = 0; i < rank; ++i) {
    const int64_t stride = 1 + Below(3, random);
    const int64_t size = 1 + Below(std::min<int64_t>(room / stride + 1, 3), random);
    room -= (size - 1) * stride;
    sizes.push_back(size);
    strides.push_back(stride);
  }
  Numbers place = {rank};
  place.insert(place.end(), sizes.begin(), sizes.end());
  place.insert(place.end(), strides.begin(), strides.end());
  place.push_back(Below(room + 1, random));
  return place;
}

struct Geometry {
  Numbers sizes;
  Numbers strides;
  int64_t offset = 0;
};

Geometry GeometryOf(const Numbers& place) {
  const auto rank = static_cast<std::ptrdiff_t>(place[0]);
  const auto sizes = place.begin() + 1;
  return {{sizes, sizes + rank}, {sizes + rank, sizes + 2 * rank}, place.back()};
}

// One that has the bits of `tensor`'s elements.
std::optional<Numbers> BitsType(const at::Tensor& tensor, std::mt19937_64& random) {
  switch (tensor.scalar_type()) {
    case at::kFloat:
      return Numbers{static_cast<int64_t>(at::kInt)};
    case at::kDouble:
    case at::kInt:
      return Numbers{static_cast<int64_t>(at::kLong)};
    case at::kLong:
      return Numbers{static_cast<int64_t>(at::kInt)};
    case at::kComplexFloat:
      return Numbers{static_cast<int64_t>(at::kFloat)};
    default:
      return Numbers{static_cast<int64_t>(Below(2, random) == 0 ? at::kByte : at::kChar)};
  }
}

std::optional<Numbers> AnyType(const at::Tensor&, std::mt19937_64& random) {
  static constexpr at::ScalarType kTypes[] = {at::kFloat, at::kDouble, at::kLong, at::kBool, at::kComplexFloat};
  return Numbers{static_cast<int64_t>(kTypes[Below(std::size(kTypes), random)])};
}

at::ScalarType TypeOf(const Numbers& numbers) { return static_cast<at::ScalarType>(numbers[0]); }

// --- Ops --------------------------------------------------------------------------

constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();

constexpr RandomOp kComputations[] = {
    {"mul", 1, SmallFactor, [](const Tensors& a, const Numbers& n) { return a[0] * (n[0] + 0.5); }},
    {"add", 1, SmallFactor, [](const Tensors& a, const Numbers& n) { return a[0] + n[0]; }},
    {"sin", 1, None, [](const Tensors& a, const Numbers&) { return a[0].sin(); }},
    {"clone", 1, None, [](const Tensors& a, const Numbers&) { return a[0].clone(); }},
    {"sum", 1, None, [](const Tensors& a, const Numbers&) { return a[0].sum(); }},
    {"sum_dim", 1, Dim, [](const Tensors& a, const Numbers& n) { return a[0].sum(at::IntArrayRef({n[0]})); }},
    {"mul_tensors", 2, None, [](const Tensors& a, const Numbers&) { return a[0] * a[1]; }},
    {"add_tensors", 2, None, [](const Tensors& a, const Numbers&) { return a[0] + a[1]; }},
    {"exp", 1, None, [](const Tensors& a, const Numbers&) { return a[0].sigmoid().exp(); }},
    {"to", 1, AnyType, [](const Tensors& a, const Numbers& n) { return a[0].to(TypeOf(n)); }},
    {"gt", 2, None, [](const Tensors& a, const Numbers&) { return a[0] > a[1]; }},
    {"where", 2, None, [](const Tensors& a, const Numbers&) { return at::where(a[0] > 0, a[0], a[1]); }},
    {"abs", 1, None, [](const Tensors& a, const Numbers&) { return a[0].abs(); }},
    {"conj", 1, None, [](const Tensors& a, const Numbers&) { return a[0].conj(); }},
    {"resolve_conj", 1, None, [](const Tensors& a, const Numbers&) { return a[0].resolve_conj(); }},
    {"real", 1, None, [](const Tensors& a, const Numbers&) { return at::real(a[0]); }},
    {"flip", 1, Dim, [](const Tensors& a, const Numbers& n) { return a[0].flip(n[0]); }},
    {"detached_product", 2, None, [](const Tensors& a, const Numbers&) { return a[0] * a[1].detach(); }},
    {"relu", 1, None, [](const Tensors& a, const Numbers&) { return a[0].relu(); }},
    {"mean", 1, None, [](const Tensors& a, const Numbers&) { return a[0].mean(); }},
    {"reshape", 1, None, [](const Tensors& a, const Numbers&) { return a[0].reshape({-1}); }},
    {"contiguous", 1, None, [](const Tensors& a, const Numbers&) { return a[0].contiguous(); }},
    {"div_tensors", 2, None, [](const Tensors& a, const Numbers&) { return a[0] / (a[1] * a[1] + 1); }},
    {"cat", 2, None,
     [](const Tensors& a, const Numbers&) {
       return at::cat({a[0].reshape({-1}), a[1].reshape({-1})});
     }},
};

constexpr RandomOp kViews[] = {
    {"t", 1, Rank2, [](const Tensors& a, const Numbers&) { return a[0].t(); }},
    {"flat", 1, None, [](const Tensors& a, const Numbers&) { return a[0].view(at::IntArrayRef({-1})); }},
    {"select", 1, DimAndIndex, [](const Tensors& a, const Numbers& n) { return a[0].select(n[0], n[1]); }},
    {"slice", 1, DimAndRange, [](const Tensors& a, const Numbers& n) { return a[0].slice(n[0], n[1], n[2], 1); }},
    {"unsqueeze", 1, NewDim, [](const Tensors& a, const Numbers& n) { return a[0].unsqueeze(n[0]); }},
    {"view_as_itself", 1, None, [](const Tensors& a, const Numbers&) { return a[0].view(a[0].sizes()); }},
    {"expand", 1, Repeats,
     [](const Tensors& a, const Numbers& n) {
       Numbers sizes = a[0].sizes().vec();
       sizes.insert(sizes.begin(), n[0]);
       return a[0].expand(sizes);
     }},
    {"diagonal", 1, AtLeastRank2, [](const Tensors& a, const Numbers&) { return a[0].diagonal(0, 0, 1); }},
    {"permute", 1, Order, [](const Tensors& a, const Numbers& n) { return a[0].permute(n); }},
    {"squeeze", 1, None, [](const Tensors& a, const Numbers&) { return a[0].squeeze(); }},
    {"every_other", 1, DimAndIndex, [](const Tensors& a, const Numbers& n) { return a[0].slice(n[0], n[1], kEnd, 2); }},
    {"unbind", 1, DimAndIndex,
     [](const Tensors& a, const Numbers& n) { return a[0].unbind(n[0])[static_cast<size_t>(n[1])]; }},
    {"chunk", 1, LongDimAndHalf,
     [](const Tensors& a, const Numbers& n) { return a[0].chunk(2, n[0])[static_cast<size_t>(n[1])]; }},
    {"unfold", 1, Window, [](const Tensors& a, const Numbers& n) { return a[0].unfold(n[0], n[1], n[2]); }},
    {"as_strided", 1, Place,
     [](const Tensors& a, const Numbers& n) {
       const Geometry geometry = GeometryOf(n);
       return a[0].as_strided(geometry.sizes, geometry.strides, geometry.offset);
     }},
    {"view_as_real", 1, None, [](const Tensors& a, const Numbers&) { return at::view_as_real(a[0]); }},
    {"view_as_complex", 1, None, [](const Tensors& a, const Numbers&) { return at::view_as_complex(a[0]); }},
    {"imag", 1, None, [](const Tensors& a, const Numbers&) { return at::imag(a[0]); }},
    {"narrow", 1, DimAndIndex, [](const Tensors& a, const Numbers& n) { return a[0].narrow(n[0], n[1], 1); }},
    {"transpose", 1, TwoDims, [](const Tensors& a, const Numbers& n) { return a[0].transpose(n[0], n[1]); }},
    {"squeeze_dim", 1, Dim, [](const Tensors& a, const Numbers& n) { return a[0].squeeze(n[0]); }},
    {"view_rows", 1, AtLeastRank1,
     [](const Tensors& a, const Numbers&) {
       return a[0].view({a[0].size(0), -1});
     }},
};

constexpr RandomOp kAliases[] = {
    {"detach", 1, None, [](const Tensors& a, const Numbers&) { return a[0].detach(); }},
    {"data", 1, None, [](const Tensors& a, const Numbers&) { return a[0].data(); }},
    {"view_dtype", 1, BitsType, [](const Tensors& a, const Numbers& n) { return a[0].view(TypeOf(n)); }},
};

constexpr RandomOp kWrites[] = {
    {"mul_", 1, SmallFactor, [](const Tensors& a, const Numbers& n) { return a[0].mul_(n[0] + 0.5); }},
    {"add_", 1, SmallFactor, [](const Tensors& a, const Numbers& n) { return a[0].add_(n[0]); }},
    {"sin_", 1, None, [](const Tensors& a, const Numbers&) { return a[0].sin_(); }},
    {"zero_", 1, None, [](const Tensors& a, const Numbers&) { return a[0].zero_(); }},
    {"add_tensor_", 2, None, [](const Tensors& a, const Numbers&) { return a[0].add_(a[1]); }},
    {"mul_tensor_", 2, None, [](const Tensors& a, const Numbers&) { return a[0].mul_(a[1]); }},
    {"copy_", 2, None, [](const Tensors& a, const Numbers&) { return a[0].copy_(a[1]); }},
    {"relu_", 1, None, [](const Tensors& a, const Numbers&) { return a[0].relu_(); }},
    {"fill_", 1, SmallFactor, [](const Tensors& a, const Numbers& n) { return a[0].fill_(n[0]); }},
    {"sigmoid_", 1, None, [](const Tensors& a, const Numbers&) { return a[0].sigmoid_(); }},
    {"cumsum_", 1, Dim, [](const Tensors& a, const Numbers& n) { return a[0].cumsum_(n[0]); }},
    {"clamp_", 1, None, [](const Tensors& a, const Numbers&) { return a[0].clamp_(-0.5, 0.5); }},
    {"sub_scaled_", 2, None, [](const Tensors& a, const Numbers&) { return a[0].sub_(a[1], 2); }},
    {"addcmul_", 2, None, [](const Tensors& a, const Numbers&) { return a[0].addcmul_(a[1], a[1]); }},
    {"double_", 1, None, [](const Tensors& a, const Numbers&) { return a[0].mul_(2); }},
    {"logical_not_", 1, None, [](const Tensors& a, const Numbers&) { return a[0].logical_not_(); }},
    {"neg_", 1, None, [](const Tensors& a, const Numbers&) { return a[0].neg_(); }},
    {"masked_fill_", 2, None, [](const Tensors& a, const Numbers&) { return a[0].masked_fill_(a[1] > 0, 0.5); }},
};

constexpr RandomOp kMetadataWrites[] = {
    {"t_", 1, Rank2, [](const Tensors& a, const Numbers&) { return a[0].t_(); }},
    {"unsqueeze_", 1, NewDim, [](const Tensors& a, const Numbers& n) { return a[0].unsqueeze_(n[0]); }},
    {"transpose_", 1, TwoDims, [](const Tensors& a, const Numbers& n) { return a[0].transpose_(n[0], n[1]); }},
    {"squeeze_", 1, None, [](const Tensors& a, const Numbers&) { return a[0].squeeze_(); }},
    {"squeeze_dim_", 1, Dim, [](const Tensors& a, const Numbers& n) { return a[0].squeeze_(n[0]); }},
    {"as_strided_", 1, Place,
     [](const Tensors& a, const Numbers& n) {
       const Geometry geometry = GeometryOf(n);
       return a[0].as_strided_(geometry.sizes, geometry.strides, geometry.offset);
     }},
};

constexpr RandomOp kStateWrites[] = {
    {"detach_", 1, None, [](const Tensors& a, const Numbers&) { return a[0].detach_(); }},
    {"requires_grad_", 1, None, [](const Tensors& a, const Numbers&) { return a[0].requires_grad_(true); }},
    {"set_", 2, None, [](const Tensors& a, const Numbers&) { return a[0].set_(a[1]); }},
};

constexpr RandomOp kDraws[] = {
    {"rand_like", 1, None, [](const Tensors& a, const Numbers&) { return at::rand_like(a[0]); }},
    {"randn_like", 1, None, [](const Tensors& a, const Numbers&) { return at::randn_like(a[0]); }},
    {"dropout", 1, None, [](const Tensors& a, const Numbers&) { return at::dropout(a[0], 0.5, /*train=*/true); }},
    {"bernoulli", 1, None, [](const Tensors& a, const Numbers&) { return a[0].sigmoid().bernoulli(); }},
    {"uniform_", 1, None, [](const Tensors& a, const Numbers&) { return a[0].uniform_(); }},
    {"normal_", 1, None, [](const Tensors& a, const Numbers&) { return a[0].normal_(); }},
    {"bernoulli_", 1, None, [](const Tensors& a, const Numbers&) { return a[0].bernoulli_(0.5); }},
};

constexpr RandomOpKind kKinds[] = {
    RandomOpKind::kComputation,   RandomOpKind::kView,       RandomOpKind::kAlias, RandomOpKind::kWrite,
    RandomOpKind::kMetadataWrite, RandomOpKind::kStateWrite, RandomOpKind::kDraw,
};

}  // namespace

absl::Span<const RandomOp> OpsOf(RandomOpKind kind) {
  switch (kind) {
    case RandomOpKind::kComputation:
      return kComputations;
    case RandomOpKind::kView:
      return kViews;
    case RandomOpKind::kAlias:
      return kAliases;
    case RandomOpKind::kWrite:
      return kWrites;
    case RandomOpKind::kMetadataWrite:
      return kMetadataWrites;
    case RandomOpKind::kStateWrite:
      return kStateWrites;
    case RandomOpKind::kDraw:
      break;
  }
  return kDraws;
}

KnownOp FindOp(const std::string& name) {
  for (const RandomOpKind kind : kKinds) {
    const absl::Span<const RandomOp> ops = OpsOf(kind);
    const auto op = absl::c_find_if(ops, [&](const RandomOp& candidate) { return candidate.name == name; });
    if (op != ops.end()) return {kind, *op};
  }
  return {RandomOpKind::kComputation, kComputations[0]};
}

bool WritesElements(const KnownOp& op) {
  return op.kind == RandomOpKind::kWrite || (op.kind == RandomOpKind::kDraw && absl::EndsWith(op.op.name, "_"));
}

bool MayView(const KnownOp& op) {
  static constexpr absl::string_view kSometimes[] = {"reshape", "contiguous", "to", "conj", "resolve_conj", "real"};
  return op.kind == RandomOpKind::kView || absl::c_linear_search(kSometimes, op.op.name);
}

int64_t Below(int64_t bound, std::mt19937_64& random) {
  return static_cast<int64_t>(random() % static_cast<uint64_t>(bound));
}

}  // namespace cotan::conformance
