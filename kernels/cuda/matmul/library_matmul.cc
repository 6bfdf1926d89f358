// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/matmul/library_matmul.h"

#include <algorithm>
#include <array>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cuda/cublaslt/product_call.h"
#include "kernels/cuda/matmul/strided_copy.h"

namespace cotan::cuda {
namespace {

constexpr int64_t kScratchAlignment = 64;
// Calls of one op, at most.
constexpr int64_t kMaxCalls = 64;

// Returns how the result is stored if the addend is a bias of its columns in memory: a dense vector that is the same
// for all of them.
std::optional<BlasStorage> FindBiasStorage(const MatmulProblem& problem) {
  if (!problem.batch.empty()) return std::nullopt;
  const auto leading_dimension = [&](int64_t rows, int64_t columns, int64_t c_row, int64_t c_column, int64_t d_row,
                                     int64_t d_column) -> std::optional<int64_t> {
    const bool is_dense = rows == 1 || (c_row == 1 && d_row == 1);
    const bool is_repeated = columns == 1 || c_column == 0;
    const bool is_small = rows <= ProductDescription::kMaxBiasBytes / static_cast<int64_t>(ByteSize(problem.dtype));
    const int64_t leading = columns == 1 ? rows : d_column;
    if (!is_dense || !is_repeated || !is_small || leading < rows) return std::nullopt;
    return leading;
  };
  const MatmulMatrix& c = problem[kMatmulC];
  const MatmulMatrix& d = problem[kMatmulD];
  if (const auto leading =
          leading_dimension(problem.n, problem.m, c.column_stride, c.row_stride, d.column_stride, d.row_stride)) {
    return BlasStorage{*leading, /*transposed=*/true};
  }
  if (const auto leading =
          leading_dimension(problem.m, problem.n, c.row_stride, c.column_stride, d.row_stride, d.column_stride)) {
    return BlasStorage{*leading, /*transposed=*/false};
  }
  return std::nullopt;
}

class LibraryPlanner {
 public:
  LibraryPlanner(const MatmulProblem& problem, bool is_guarded, int64_t scratch_begin)
      : problem_(problem), is_guarded_(is_guarded), scratch_(scratch_begin) {}

  std::optional<LibraryMatmulPlan> Plan() {
    for (const MatmulRole role : {kMatmulA, kMatmulB}) {
      if (!StorageOf(role)) Pack(role);
    }
    const MatmulProblem result = problem_;
    const bool uses_scratch = is_guarded_ || !StorageOf(kMatmulD);
    if (uses_scratch) MoveToScratch(kMatmulD, /*by_rows=*/true);
    MergeMatmulBatch(problem_);
    PlaceAddend();
    if (result_storage_.transposed) problem_ = TransposeMatmul(problem_);
    if (!AddCalls()) return std::nullopt;
    if (uses_scratch) AddResultCopy(result);
    result_.plan.scratch_bytes = static_cast<size_t>(scratch_);
    return std::move(result_);
  }

 private:
  std::optional<BlasStorage> StorageOf(MatmulRole role) const {
    return FindBlasStorage(problem_.Rows(role), problem_.Columns(role), problem_[role]);
  }

  // Gives the matrices of a role a dense place in scratch. Batch dimensions that repeat them still do.
  void MoveToScratch(MatmulRole role, bool by_rows) {
    MatmulMatrix& matrix = problem_[role];
    const int64_t rows = problem_.Rows(role);
    const int64_t columns = problem_.Columns(role);
    matrix.row_stride = by_rows ? columns : 1;
    matrix.column_stride = by_rows ? 1 : rows;
    int64_t elements = rows * columns;
    for (size_t i = problem_.batch.size(); i-- > 0;) {
      int64_t& stride = problem_.batch[i].strides[role];
      if (stride == 0 && role != kMatmulD) continue;
      stride = elements;
      elements *= problem_.batch[i].size;
    }
    matrix.argument = ScratchArgument(scratch_);
    const int64_t bytes = elements * static_cast<int64_t>(ByteSize(problem_.dtype));
    scratch_ += (bytes + kScratchAlignment - 1) / kScratchAlignment * kScratchAlignment;
  }

  // Adds a copy between two roles of problems with the same sizes; batch dimensions that `to` repeats are copied once.
  void AddCopy(const MatmulProblem& from, MatmulRole from_role, const MatmulProblem& to, MatmulRole to_role,
               bool is_guarded) {
    StridedCopy copy = {
        .element_bytes = ByteSize(problem_.dtype),
        .dimensions = {{from.Rows(from_role), from[from_role].row_stride, to[to_role].row_stride},
                       {from.Columns(from_role), from[from_role].column_stride, to[to_role].column_stride}},
        .from = from[from_role].argument,
        .to = to[to_role].argument,
        .is_guarded = is_guarded};
    for (size_t i = 0; i < to.batch.size(); ++i) {
      if (to.batch[i].strides[to_role] == 0) continue;
      copy.dimensions.push_back({to.batch[i].size, from.batch[i].strides[from_role], to.batch[i].strides[to_role]});
    }
    Add(PlanStridedCopy(copy), 1);
  }

  // Copies a or b to scratch, by rows or by columns, whichever is nearer to its layout.
  void Pack(MatmulRole role) {
    const MatmulProblem before = problem_;
    MoveToScratch(role, /*by_rows=*/before[role].column_stride <= before[role].row_stride);
    AddCopy(before, role, problem_, role, /*is_guarded=*/false);
  }

  // Returns whether the library can read the addend: stored as the result, by rows or by columns.
  bool AddsInPlace() const {
    const std::optional<BlasStorage> c = StorageOf(kMatmulC);
    return c && c->transposed == StorageOf(kMatmulD)->transposed;
  }

  // Decides how the addend is added, and sets result_storage_.
  void PlaceAddend() {
    if (problem_.has_c) addend_ = ProductAddend::kMatrix;
    if (problem_.has_c && !AddsInPlace()) {
      if (const std::optional<BlasStorage> storage = FindBiasStorage(problem_)) {
        addend_ = ProductAddend::kBias;
        result_storage_ = *storage;
        return;
      }
      CopyAddend();
    }
    result_storage_ = *StorageOf(kMatmulD);
  }

  // Writes the addend to the result, to which the product is then added: both are rounded once, together.
  void CopyAddend() {
    AddCopy(problem_, kMatmulC, problem_, kMatmulD, /*is_guarded=*/false);
    problem_[kMatmulC] = problem_[kMatmulD];
    for (MatmulBatch& dimension : problem_.batch) dimension.strides[kMatmulC] = dimension.strides[kMatmulD];
    MergeMatmulBatch(problem_);
  }

  void AddResultCopy(const MatmulProblem& result) {
    // Batch dimensions of problem_ may be merged by now.
    MatmulProblem from = result;
    from[kMatmulD] = {result.n, 1, scratch_result_};
    int64_t elements = result.m * result.n;
    for (size_t i = from.batch.size(); i-- > 0;) {
      from.batch[i].strides[kMatmulD] = elements;
      elements *= from.batch[i].size;
    }
    AddCopy(from, kMatmulD, result, kMatmulD, is_guarded_);
  }

  // Adds the calls of the library: the largest batch dimension is the library's, each index of the others is a call.
  bool AddCalls() {
    scratch_result_ = problem_[kMatmulD].argument;
    MatmulBatch inner;
    std::vector<MatmulBatch> outer = problem_.batch;
    const auto largest = std::max_element(outer.begin(), outer.end(),
                                          [](const MatmulBatch& x, const MatmulBatch& y) { return x.size < y.size; });
    if (largest != outer.end()) {
      inner = *largest;
      outer.erase(largest);
    }
    const int64_t chunks = inner.size / ProductDescription::kMaxBatchCount;
    const int64_t rest = inner.size % ProductDescription::kMaxBatchCount;
    int64_t num_calls = chunks + (rest > 0 ? 1 : 0);
    for (const MatmulBatch& dimension : outer) {
      if (dimension.size > kMaxCalls) return false;
      num_calls *= dimension.size;
    }
    if (num_calls > kMaxCalls) return false;
    if (chunks > 0) AddCall(inner, outer, 0, chunks, ProductDescription::kMaxBatchCount);
    if (rest > 0) AddCall(inner, outer, chunks * ProductDescription::kMaxBatchCount, 1, rest);
    return true;
  }

  // Adds the products of `chunks` times `count` indices of `inner`, from `first` on.
  void AddCall(const MatmulBatch& inner, const std::vector<MatmulBatch>& outer, int64_t first, int64_t chunks,
               int64_t count) {
    ProductDescription product = {.dtype = problem_.dtype,
                                  .m = problem_.m,
                                  .n = problem_.n,
                                  .k = problem_.k,
                                  .batch_count = count,
                                  .a = Matrix(kMatmulA, inner),
                                  .b = Matrix(kMatmulB, inner),
                                  .c = {},
                                  .d = {result_storage_.leading_dimension, inner.strides[kMatmulD]},
                                  .addend = addend_,
                                  .calls = {}};
    if (addend_ == ProductAddend::kMatrix) product.c = Matrix(kMatmulC, inner);
    const auto at = [](const ProductOffsets& from, const MatmulBatch& dimension, int64_t i) {
      return ProductOffsets{from.a + i * dimension.strides[kMatmulA], from.b + i * dimension.strides[kMatmulB],
                            from.c + i * dimension.strides[kMatmulC], from.d + i * dimension.strides[kMatmulD]};
    };
    for (int64_t i = 0; i < chunks; ++i) product.calls.push_back(at({}, inner, first + i * count));
    for (const MatmulBatch& dimension : outer) {
      std::vector<ProductOffsets> calls;
      for (const ProductOffsets& call : product.calls) {
        for (int64_t i = 0; i < dimension.size; ++i) calls.push_back(at(call, dimension, i));
      }
      product.calls = std::move(calls);
    }
    LibraryCall call;
    call.arguments = {problem_[kMatmulA].argument, problem_[kMatmulB].argument};
    if (problem_.has_c) call.arguments.push_back(problem_[kMatmulC].argument);
    call.arguments.push_back(problem_[kMatmulD].argument);
    const auto num_launches = static_cast<int64_t>(product.calls.size());
    call.spec = std::make_shared<ProductCall>(std::move(product));
    Add(std::move(call), num_launches);
  }

  ProductMatrix Matrix(MatmulRole role, const MatmulBatch& inner) const {
    const BlasStorage storage = *StorageOf(role);
    return {storage.leading_dimension, inner.strides[role], storage.transposed};
  }

  void Add(PlanStep step, int64_t num_launches) {
    result_.plan.steps.push_back(std::move(step));
    result_.num_launches += num_launches;
  }

  MatmulProblem problem_;
  const bool is_guarded_;
  int64_t scratch_;  // bytes in use
  KernelArgument scratch_result_;
  ProductAddend addend_ = ProductAddend::kNone;
  BlasStorage result_storage_;
  LibraryMatmulPlan result_;
};

bool HasDType(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16 || dtype == DType::kFloat32 || dtype == DType::kFloat64;
}

}  // namespace

std::optional<LibraryMatmulPlan> PlanLibraryProduct(const MatmulProblem& problem, bool is_guarded,
                                                    int64_t scratch_begin) {
  if (!HasDType(problem.dtype)) return std::nullopt;
  return LibraryPlanner(problem, is_guarded, scratch_begin).Plan();
}

}  // namespace cotan::cuda
