// SPDX-License-Identifier: Apache-2.0

#include "testing/cuda/kernel_cases.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "kernels/testing/random_case.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

using serialization::Op;
using serialization::Scan;

constexpr DType kAll[] = {DType::kBool,         DType::kUInt8,     DType::kInt8,      DType::kInt16,
                          DType::kInt32,        DType::kInt64,     DType::kFloat16,   DType::kBFloat16,
                          DType::kFloat32,      DType::kFloat64,   DType::kComplex64, DType::kComplex128,
                          DType::kFloat8E4m3fn, DType::kFloat8E5m2};
constexpr DType kReal[] = {DType::kBool,  DType::kUInt8,   DType::kInt8,     DType::kInt16,   DType::kInt32,
                           DType::kInt64, DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};
constexpr DType kSummable[] = {DType::kUInt8,   DType::kInt8,     DType::kInt16,   DType::kInt32,  DType::kInt64,
                               DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};
constexpr DType kIndexes[] = {DType::kInt32, DType::kInt64};
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Not std::hash, whose values differ between libraries.
uint64_t Fnv(absl::string_view text) {
  uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

Op CopyOp() {
  Op op;
  op.mutable_copy();
  return op;
}

Op ConcatOp(int64_t dim) {
  Op op;
  op.mutable_concat()->set_dim(dim);
  return op;
}

Op GatherOp(int64_t dim) {
  Op op;
  op.mutable_gather()->set_dim(dim);
  return op;
}

Op ScatterAddOp(int64_t dim, int64_t padding_index) {
  Op op;
  op.mutable_scatter_add()->set_dim(dim);
  op.mutable_scatter_add()->set_padding_index(padding_index);
  return op;
}

// Adds an input of values that a copy must keep: all bit patterns, but 0 and 1 for bool.
void AddBits(KernelCaseList& list, DType dtype, const StridedLayout& layout) {
  if (dtype == DType::kBool) {
    list.Input(dtype, layout);
    return;
  }
  HostTensor tensor(dtype, layout);
  auto* bytes = static_cast<unsigned char*>(tensor.data());
  for (size_t i = 0; i < tensor.bytes().size(); ++i) bytes[i] = static_cast<unsigned char>(list.random()());
  list.Input(std::move(tensor));
}

void AddIndex(KernelCaseList& list, DType dtype, absl::Span<const int64_t> sizes, int64_t low, int64_t high) {
  HostTensor index(dtype, sizes);
  std::vector<double> values(static_cast<size_t>(index.numel()));
  for (double& value : values) {
    value = static_cast<double>(low + static_cast<int64_t>(list.random()() % static_cast<uint64_t>(high - low)));
  }
  index.SetValues(values);
  list.Input(std::move(index));
}

void AddScan(KernelCaseList& list, DType dtype, Scan::Function function, const DimVector& sizes, int64_t dim,
             absl::string_view what) {
  Op op;
  op.mutable_scan()->set_function(function);
  op.mutable_scan()->set_dim(dim);
  op.mutable_scan()->set_reverse(function == Scan::PROD || function == Scan::MIN);
  const bool has_indexes = function == Scan::MAX || function == Scan::MIN;
  const bool is_exact = !IsFloatingPoint(dtype) || has_indexes;
  list.Add(absl::StrCat("scan/", DTypeName(dtype), "/", Scan::Function_Name(function), what), op,
           is_exact                   ? kExact
           : dtype == DType::kFloat64 ? kReduction
                                      : kPointwise,
           function != Scan::LOGSUMEXP);
  list.Input(dtype, DenseLayout(sizes), dtype == DType::kUInt8 ? 0 : -2, 3);
  list.Output(dtype, DenseLayout(sizes));
  if (has_indexes) list.Output(DType::kInt64, DenseLayout(sizes));
}

void AddSort(KernelCaseList& list, DType dtype, const DimVector& sizes, int64_t dim, int64_t count,
             absl::string_view what) {
  Op op;
  op.mutable_sort()->set_dim(dim);
  op.mutable_sort()->set_descending(count % 2 == 0);
  list.Add(absl::StrCat("sort/", DTypeName(dtype), "/", what), op, kExact);
  HostTensor& x = list.Input(dtype, DenseLayout(sizes), dtype == DType::kUInt8 ? 0 : -60, 70);
  if (IsFloatingPoint(dtype)) {
    std::vector<double> values = x.Values();
    for (size_t i = 3; i < values.size(); i += 41) values[i] = kNan;
    x.SetValues(values);
  }
  DimVector results = sizes;
  results[static_cast<size_t>(dim)] = count;
  list.Output(dtype, DenseLayout(results));
  list.Output(DType::kInt64, DenseLayout(results));
}

}  // namespace

KernelCase& KernelCaseList::Add(std::string name, Op op, double tolerance, bool same_bits) {
  random_.seed(Fnv(name));
  cases_.push_back({.name = std::move(name), .op = std::move(op), .tolerance = tolerance, .same_bits = same_bits});
  return cases_.back();
}

HostTensor& KernelCaseList::Input(DType dtype, StridedLayout layout, double low, double high) {
  cases_.back().inputs.push_back(RandomTensor(dtype, std::move(layout), random_, low, high));
  return cases_.back().inputs.back();
}

void KernelCaseList::Input(DType dtype, absl::Span<const int64_t> sizes, absl::Span<const double> values) {
  cases_.back().inputs.emplace_back(dtype, sizes, values);
}

void KernelCaseList::Output(DType dtype, StridedLayout layout) {
  cases_.back().outputs.push_back({dtype, std::move(layout)});
}

double ProductTolerance(DType dtype) {
  if (!IsFloatingPoint(dtype)) return kExact;
  return ByteSize(dtype) == 2 ? kPointwise : kMatmul;
}

void AddCopyCases(KernelCaseList& list) {
  for (const DType dtype : kAll) {
    const std::string prefix = absl::StrCat("copy/", DTypeName(dtype));
    list.Add(prefix + "/dense", CopyOp(), kExact);
    AddBits(list, dtype, DenseLayout({3, 1000}));
    list.Output(dtype, DenseLayout({3, 1000}));
    list.Add(prefix + "/transposed", CopyOp(), kExact);
    AddBits(list, dtype, DenseLayout({2, 70, 45}, {0, 2, 1}));
    list.Output(dtype, DenseLayout({2, 70, 45}));
    list.Add(prefix + "/strided", CopyOp(), kExact);
    AddBits(list, dtype, RandomLayout({3, 5, 7, 4}, list.random(), /*gaps=*/true, /*expand=*/true));
    list.Output(dtype, RandomLayout({3, 5, 7, 4}, list.random(), /*gaps=*/true, /*expand=*/false));
    for (const int64_t dim : {0, 1}) {
      list.Add(absl::StrCat("concat/", DTypeName(dtype), "/dim", dim), ConcatOp(dim), kExact);
      DimVector sizes = {9, 17};
      int64_t total = 0;
      for (const int64_t size : {5, 0, 16, 3}) {
        sizes[static_cast<size_t>(dim)] = size;
        AddBits(list, dtype, DenseLayout(sizes));
        total += size;
      }
      sizes[static_cast<size_t>(dim)] = total;
      list.Output(dtype, DenseLayout(sizes));
    }
  }
}

void AddIndexingCases(KernelCaseList& list) {
  for (const DType dtype : kAll) {
    for (const DType index : kIndexes) {
      for (const int64_t dim : {0, 1}) {
        list.Add(absl::StrCat("gather/", DTypeName(dtype), "/", DTypeName(index), "/dim", dim), GatherOp(dim), kExact);
        AddBits(list, dtype, DenseLayout({13, 24}));
        AddIndex(list, index, {4, 5}, dim == 0 ? -13 : -24, dim == 0 ? 13 : 24);
        list.Output(dtype, DenseLayout(dim == 0 ? DimVector{4, 5, 24} : DimVector{13, 4, 5}));
      }
    }
  }
  for (const DType dtype : kSummable) {
    // Sums of f32 and narrower floats have the order of the index.
    const double tolerance = IsFloatingPoint(dtype) ? kReduction : kExact;
    list.Add(absl::StrCat("scatter_add/", DTypeName(dtype), "/rows"), ScatterAddOp(0, 3), tolerance);
    list.Input(dtype, DenseLayout({6, 7, 33}), dtype == DType::kUInt8 ? 0 : -4, 4);
    AddIndex(list, DType::kInt64, {6, 7}, 0, 11);
    list.Output(dtype, DenseLayout({11, 33}));
    list.Add(absl::StrCat("scatter_add/", DTypeName(dtype), "/added"), ScatterAddOp(1, -1), tolerance);
    list.Input(dtype, DenseLayout({5, 600}), dtype == DType::kUInt8 ? 0 : -4, 4);
    AddIndex(list, DType::kInt32, {600}, 0, 19);
    list.Input(dtype, DenseLayout({5, 19}), 0, 4);
    list.Output(dtype, DenseLayout({5, 19}));
  }
  list.Add("scatter_add/f32/long", ScatterAddOp(0, -1), kReduction);
  list.Input(DType::kFloat32, DenseLayout({5000, 4}));
  AddIndex(list, DType::kInt64, {5000}, 0, 300);
  list.Output(DType::kFloat32, DenseLayout({300, 4}));
  for (const DType dtype : kIndexes) {
    Op op;
    op.mutable_checked_index()->set_size("9");
    op.mutable_checked_index()->set_from_end(true);
    op.mutable_checked_index()->set_ignored(-100);
    list.Add(absl::StrCat("checked_index/", DTypeName(dtype), "/from_end"), op, kExact);
    AddIndex(list, dtype, {5, 60}, -9, 9);
    list.Output(dtype, DenseLayout({5, 60}));
  }
}

void AddScanAndSortCases(KernelCaseList& list) {
  for (const DType dtype : kSummable) {
    for (const Scan::Function function : {Scan::SUM, Scan::PROD, Scan::MAX, Scan::MIN, Scan::LOGSUMEXP}) {
      if (function == Scan::LOGSUMEXP && !IsFloatingPoint(dtype)) continue;
      AddScan(list, dtype, function, {7, 50}, 1, "");
    }
    AddScan(list, dtype, Scan::SUM, {40, 3, 5}, 0, "_columns");
  }
  AddScan(list, DType::kFloat32, Scan::SUM, {2, 6000}, 1, "_long");
  AddScan(list, DType::kInt64, Scan::MAX, {1, 6000}, 1, "_long");
  for (const DType dtype : kReal) {
    AddSort(list, dtype, {5, 70}, 1, 70, "rows");
    AddSort(list, dtype, {33, 6}, 0, 5, "columns");
  }
  AddSort(list, DType::kFloat32, {1, 5000}, 1, 4999, "long");
}

std::vector<KernelCase> AllKernelCases() {
  KernelCaseList list;
  AddCopyCases(list);
  AddIndexingCases(list);
  AddScanAndSortCases(list);
  AddProductCases(list);
  AddConvolutionCases(list);
  AddPoolCases(list);
  AddAttentionCases(list);
  AddRecurrentCases(list);
  AddExprCases(list);
  return list.Take();
}

}  // namespace cotan::testing
