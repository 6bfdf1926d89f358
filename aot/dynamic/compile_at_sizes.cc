// SPDX-License-Identifier: Apache-2.0

#include "aot/dynamic/compile_at_sizes.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "aot/capture/non_leaf.h"
#include "aot/dynamic/learn_sizes.h"
#include "aot/dynamic/sample_points.h"
#include "aot/dynamic/unify.h"
#include "aot/ir/size_estimate.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

// Number of attempts to find points at which no sizes of the model coincide by chance.
constexpr int kAttempts = 3;

// Adds the sizes that are equal in both traces of a method.
void AddFixedSizes(const Graph& a, const Graph& b, absl::btree_set<int64_t>& fixed) {
  for (ValueId id = 0; id < std::min(a.num_values(), b.num_values()); ++id) {
    const SymIntVector &ours = a.value(id).type.sizes, &theirs = b.value(id).type.sizes;
    for (size_t d = 0; d < std::min(ours.size(), theirs.size()); ++d) {
      if (ours[d] == theirs[d] && ours[d].is_constant() && ours[d].constant() > 1) fixed.insert(ours[d].constant());
    }
  }
}

bool IsFixed(const SymIntVector& sizes) {
  return absl::c_all_of(sizes, [](const SymInt& size) { return size.is_constant(); });
}

// Returns true if the dimension is expanded.
bool IsExpanded(const at::Tensor& tensor, int64_t dim) { return tensor.stride(dim) == 0 && tensor.size(dim) > 1; }

at::Tensor Resized(const at::Tensor& example, int64_t dim, int64_t size) {
  if (example.size(dim) == size) return example;
  return example.index_select(dim, at::arange(size, at::kLong).remainder(example.size(dim)));
}

// Returns strides for `sizes` with the order of dimensions in memory, and the gaps, of `example`.
std::vector<int64_t> StridesLike(const at::Tensor& example, at::IntArrayRef sizes) {
  std::vector<int64_t> innermost_first(sizes.size());
  std::iota(innermost_first.rbegin(), innermost_first.rend(), 0);
  std::stable_sort(innermost_first.begin(), innermost_first.end(),
                   [&](int64_t a, int64_t b) { return example.stride(a) < example.stride(b); });
  std::vector<int64_t> strides = example.strides().vec();
  int64_t extent = 1;
  int64_t example_extent = 1;
  for (const int64_t dim : innermost_first) {
    if (IsExpanded(example, dim)) continue;
    int64_t& stride = strides[static_cast<size_t>(dim)];
    const int64_t gap = std::max<int64_t>(stride - example_extent, 0);
    example_extent = stride * example.size(dim);
    stride = extent + gap;
    extent = stride * sizes[static_cast<size_t>(dim)];
  }
  return strides;
}

// Returns a tensor with the elements of `tensor` and strides like those of `example`.
at::Tensor LaidOutAs(const at::Tensor& example, const at::Tensor& tensor) {
  at::Tensor elements = tensor;
  for (int64_t dim = 0; dim < example.dim(); ++dim) {
    if (IsExpanded(example, dim)) elements = elements.narrow(dim, 0, 1);
  }
  const at::Tensor result = at::empty_strided(elements.sizes(), StridesLike(example, tensor.sizes()), tensor.options());
  result.copy_(elements);
  return result.sizes() == tensor.sizes() ? result : result.expand(tensor.sizes());  // a view only if needed
}

// Runs the compiler at the sizes of `point`.
absl::StatusOr<std::string> CompileAt(const DynamicShapes& shapes, const DimVector& point, bool is_first,
                                      const FixedCompiler& compile, TraceLog& log) {
  std::vector<UsualSize> usual;
  for (size_t i = 0; i < point.size(); ++i) {
    if (point[i] > 1) usual.push_back({point[i], shapes.symbols[i].example});
  }
  const UsualSizesScope scope(std::move(usual));
  absl::StatusOr<std::string> file = compile(point, is_first, log);
  if (file.ok()) return file;
  return absl::Status(
      file.status().code(),
      absl::StrCat("with ", shapes.ToString(point), ", which the declared ranges allow: ", file.status().message()));
}

// Returns true if `at_one` has the sizes that are equal in `a` and `b`.
bool HasFixedSizes(const TensorType& at_one, const TensorType& a, const TensorType& b) {
  if (at_one.dtype != a.dtype || at_one.sizes.size() != a.sizes.size()) return false;
  for (size_t d = 0; d < a.sizes.size(); ++d) {
    if (a.sizes[d] == b.sizes[d] && at_one.sizes[d] != a.sizes[d]) return false;
  }
  return true;
}

// Compares only inputs and outputs of programs traced at size 1: their ops may differ, because
// every layout is dense there and size 1 broadcasts.
absl::Status CheckSizeOfOne(const DynamicShapes& shapes, absl::Span<const MethodTraces> methods, const DimVector& first,
                            const FixedCompiler& compile) {
  for (size_t i = 0; i < first.size(); ++i) {
    if (shapes.symbols[i].min > 1) continue;
    DimVector point = first;
    point[i] = 1;
    TraceLog log{.traces_only = true};
    COTAN_RETURN_IF_ERROR(CompileAt(shapes, point, /*is_first=*/false, compile, log).status());
    for (size_t m = 0; m < log.traces.size(); ++m) {
      const Graph &one = log.traces[m], &a = methods[m].graphs[0], &b = methods[m].graphs[1];
      for (size_t o = 0; o < a.outputs().size(); ++o) {
        const GraphOutput& output = a.outputs()[o];
        if (output.kind != OutputKind::kUserOutput || output.value == kNoValue) continue;
        const ValueId value = o < one.outputs().size() ? one.outputs()[o].value : kNoValue;
        if (value != kNoValue &&
            HasFixedSizes(one.value(value).type, a.value(output.value).type, b.value(b.outputs()[o].value).type)) {
          continue;
        }
        return absl::InvalidArgumentError(absl::StrCat(
            "with ", shapes.ToString(point), ", which the declared ranges allow, '", methods[m].name,
            "' does not return the '", output.name, "' that it returns at larger sizes; declare a range from 2"));
      }
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> CompileAtPoints(const DynamicShapes& shapes, const std::vector<DimVector>& base,
                                            RangeEnds ends, const FixedCompiler& compile,
                                            absl::btree_set<int64_t>& fixed) {
  std::vector<DimVector> points = base;
  if (ends == RangeEnds::kTraced) {
    for (DimVector& end : ChooseEndPoints(shapes)) points.push_back(std::move(end));
  }
  std::vector<std::string> files;
  std::vector<MethodTraces> methods;
  for (size_t k = 0; k < points.size(); ++k) {
    TraceLog log{.traces_only = k >= base.size()};
    COTAN_ASSIGN_OR_RETURN(std::string file, CompileAt(shapes, points[k], k == 0, compile, log));
    if (!log.traces_only) files.push_back(std::move(file));
    methods.resize(std::max(methods.size(), log.traces.size()));
    for (size_t m = 0; m < log.traces.size(); ++m) {
      methods[m].name = log.traces[m].name;
      methods[m].graphs.push_back(std::move(log.traces[m]));
    }
  }
  for (const MethodTraces& method : methods) {
    if (method.graphs.size() > 1) AddFixedSizes(method.graphs[0], method.graphs[1], fixed);
  }
  COTAN_ASSIGN_OR_RETURN(const LearnedSizes learned,
                         InferSymbolicSizes(shapes, points, static_cast<int>(base.size()), methods));
  if (ends == RangeEnds::kTraced) COTAN_RETURN_IF_ERROR(CheckSizeOfOne(shapes, methods, base[0], compile));
  return UnifyArtifacts(shapes, base, learned, std::move(files));
}

// Returns `resized` as a leaf, as a non-leaf, or as a view made under no_grad, like `example`.
at::Tensor WithHistoryOf(const at::Tensor& example, const at::Tensor& resized) {
  if (PassesNoGradient(example)) {
    const at::NoGradGuard no_grad;
    return resized.as_strided(resized.sizes(), resized.strides(), resized.storage_offset());
  }
  return example.is_leaf() ? resized : LaidOutAs(example, resized);
}

}  // namespace

std::vector<DimVector> SizesOf(const std::vector<at::Tensor>& tensors) {
  std::vector<DimVector> sizes;
  for (const at::Tensor& tensor : tensors) sizes.emplace_back(tensor.sizes().begin(), tensor.sizes().end());
  return sizes;
}

absl::StatusOr<std::vector<at::Tensor>> ResizeExamples(const std::vector<at::Tensor>& examples,
                                                       const DynamicShapes& shapes, const DimVector& values) {
  const at::AutoGradMode grad_mode(true);  // non-leaf examples keep a grad_fn in any grad mode
  std::vector<at::Tensor> result;
  for (size_t i = 0; i < examples.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (!examples[k].is_alias_of(examples[i]) || examples[k].is_same(examples[i])) continue;
      if (IsFixed(shapes.sizes[k]) && IsFixed(shapes.sizes[i])) continue;
      return absl::UnimplementedError(
          absl::StrCat("examples ", k, " and ", i, " share memory; with dynamic dimensions each needs its own"));
    }
    const auto same = absl::c_find_if(examples, [&](const at::Tensor& other) { return other.is_same(examples[i]); });
    const auto first = static_cast<size_t>(same - examples.begin());
    if (first < i || IsFixed(shapes.sizes[i])) {
      result.push_back(first < i ? result[first] : examples[i]);
      continue;
    }
    at::Tensor resized = examples[i].detach();
    for (size_t d = 0; d < shapes.sizes[i].size(); ++d) {
      COTAN_ASSIGN_OR_RETURN(const int64_t size, shapes.sizes[i][d].Evaluate(values));
      if (resized.size(static_cast<int64_t>(d)) == 0 && size > 0) {
        return absl::InvalidArgumentError(absl::StrCat("example ", i, " is empty; give one with elements"));
      }
      resized = Resized(resized, static_cast<int64_t>(d), size);
    }
    if (resized.sizes() != examples[i].sizes()) resized = LaidOutAs(examples[i], resized);
    resized.requires_grad_(examples[i].requires_grad());
    result.push_back(WithHistoryOf(examples[i], resized));
  }
  return result;
}

absl::StatusOr<std::string> CompileAtSizes(const DynamicShapes& shapes, RangeEnds ends, const FixedCompiler& compile) {
  absl::Status error;
  absl::btree_set<int64_t> fixed;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    COTAN_ASSIGN_OR_RETURN(const std::vector<DimVector> points, ChooseSamplePoints(shapes, attempt, fixed));
    absl::StatusOr<std::string> file = CompileAtPoints(shapes, points, ends, compile, fixed);
    if (file.ok() || file.status().code() == absl::StatusCode::kUnimplemented) return file;
    if (error.ok()) error = file.status();
  }
  return error;
}

}  // namespace cotan::aot
