// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/linear_algebra/linear_algebra.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/api/op_check.h"
#include "kernels/cpu/linear_algebra/decompositions.h"
#include "kernels/cpu/threading/parallel.h"

namespace cotan::cpu {
namespace linear_algebra {
namespace {

using serialization::LinearAlgebra;

// The matrices of an operand; strides are in elements.
struct Operand {
  DType dtype = DType::kUndefined;
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t row_stride = 0;
  int64_t column_stride = 0;
  DimVector batch_strides;
};

// Returns the operand with the dimensions after the first `batch_rank`: a matrix, a vector as a column, or a number.
Operand OperandOf(const TensorSpec& spec, size_t batch_rank) {
  const StridedLayout& layout = spec.layout;
  Operand operand;
  operand.dtype = spec.dtype;
  operand.batch_strides.assign(layout.strides.begin(), layout.strides.begin() + static_cast<int64_t>(batch_rank));
  if (layout.sizes.size() > batch_rank) {
    operand.rows = layout.sizes[batch_rank];
    operand.row_stride = layout.strides[batch_rank];
  }
  if (layout.sizes.size() > batch_rank + 1) {
    operand.columns = layout.sizes[batch_rank + 1];
    operand.column_stride = layout.strides[batch_rank + 1];
  }
  return operand;
}

Operand Transposed(Operand operand) {
  std::swap(operand.rows, operand.columns);
  std::swap(operand.row_stride, operand.column_stride);
  return operand;
}

template <typename T>
void Load(const T* from, const Operand& operand, const Matrix& to) {
  for (int64_t j = 0; j < to.columns; ++j) {
    const T* column = from + j * operand.column_stride;
    for (int64_t i = 0; i < to.rows; ++i)
      to.data[i + j * to.rows] = static_cast<double>(column[i * operand.row_stride]);
  }
}

// Stores the first rows and columns of a matrix.
template <typename T>
void Store(const Matrix& from, const Operand& operand, T* to) {
  for (int64_t j = 0; j < operand.columns; ++j) {
    T* column = to + j * operand.column_stride;
    for (int64_t i = 0; i < operand.rows; ++i)
      column[i * operand.row_stride] = static_cast<T>(from.data[i + j * from.rows]);
  }
}

int64_t SizeOf(const Matrix& matrix) { return matrix.rows * matrix.columns; }

void FillNan(const Matrix& matrix) {
  std::fill_n(matrix.data, SizeOf(matrix), std::numeric_limits<double>::quiet_NaN());
}

// Divides one worker's scratch. Each part is aligned to 64 bytes if the memory is.
class Parts {
 public:
  // Without memory only the size is counted.
  explicit Parts(void* memory) : memory_(static_cast<char*>(memory)) {}

  double* Numbers(int64_t count) { return reinterpret_cast<double*>(Take(count * int64_t{sizeof(double)})); }
  int32_t* Pivots(int64_t count) { return reinterpret_cast<int32_t*>(Take(count * int64_t{sizeof(int32_t)})); }
  Matrix Of(int64_t rows, int64_t columns) { return {Numbers(rows * columns), rows, columns}; }
  int64_t bytes() const { return bytes_; }

 private:
  char* Take(int64_t bytes) {
    char* part = memory_ == nullptr ? nullptr : memory_ + bytes_;
    bytes_ += (bytes + 63) / 64 * 64;
    return part;
  }

  char* memory_;
  int64_t bytes_ = 0;
};

// What a worker needs for one matrix of the batch.
struct Memory {
  Matrix a, b, q, v;
  double* values = nullptr;
  int32_t* pivots = nullptr;
  Workspace workspace = nullptr;
};

class LinearAlgebraKernel final : public Kernel {
 public:
  explicit LinearAlgebraKernel(const KernelRequest& request) : op_(request.op.linear_algebra()) {
    const DimVector& sizes = request.inputs[0].layout.sizes;
    batch_.assign(sizes.begin(), sizes.end() - 2);
    for (const TensorSpec& spec : request.inputs) inputs_.push_back(OperandOf(spec, batch_.size()));
    for (const TensorSpec& spec : request.outputs) outputs_.push_back(OperandOf(spec, batch_.size()));
    const int64_t count = NumElements(batch_);
    threads_ = static_cast<int>(std::clamp<int64_t>(count, 1, request.threads));
    Parts parts(nullptr);
    MemoryOf(parts);
    worker_bytes_ = count == 0 ? 0 : parts.bytes();
    scratch_bytes_ = static_cast<size_t>(worker_bytes_) * static_cast<size_t>(threads_);
  }

  absl::Status Run(const KernelArgs& args) override {
    COTAN_RETURN_IF_ERROR(CheckPivots(args));
    ParallelForWorker(threads_, NumElements(batch_), 1, [&](int worker, int64_t begin, int64_t end) {
      Parts parts(static_cast<char*>(args.scratch) + worker * worker_bytes_);
      const Memory memory = MemoryOf(parts);
      for (int64_t item = begin; item < end; ++item) RunOne(args, item, memory);
    });
    return absl::OkStatus();
  }

 private:
  // A decomposition that has orthogonal columns is computed of the transposed matrix if that has fewer columns.
  bool IsWide() const { return inputs_[0].columns > inputs_[0].rows; }

  Memory MemoryOf(Parts& parts) const {
    const int64_t m = inputs_[0].rows, n = inputs_[0].columns;
    Memory memory;
    memory.workspace = parts.Numbers(WorkspaceSize(m, n));
    memory.a = parts.Of(m, n);
    switch (op_.function()) {
      case LinearAlgebra::EIGH:
        memory.values = parts.Numbers(n);
        break;
      case LinearAlgebra::SVD: {
        const int64_t rows = std::max(m, n), columns = std::min(m, n);
        memory.a.rows = rows;
        memory.a.columns = columns;
        memory.q = parts.Of(rows, op_.full_matrices() ? rows : columns);
        memory.v = parts.Of(columns, columns);
        memory.values = parts.Numbers(columns);
        break;
      }
      case LinearAlgebra::QR:
        memory.q = parts.Of(m, outputs_[0].columns);
        break;
      case LinearAlgebra::LU:
        memory.pivots = parts.Pivots(std::min(m, n));
        break;
      case LinearAlgebra::LU_SOLVE:
        memory.pivots = parts.Pivots(n);
        [[fallthrough]];
      case LinearAlgebra::TRIANGULAR_SOLVE:
        memory.b = parts.Of(n, outputs_[0].columns);
        break;
      default:
        break;
    }
    return memory;
  }

  // Returns the offset of a matrix of the batch in elements.
  int64_t OffsetOf(const Operand& operand, int64_t item) const {
    int64_t offset = 0;
    for (size_t d = batch_.size(); d-- > 0;) {
      offset += item % batch_[d] * operand.batch_strides[d];
      item /= batch_[d];
    }
    return offset;
  }

  const int32_t* PivotsOf(const KernelArgs& args, int64_t item) const {
    return static_cast<const int32_t*>(args.inputs[1]) + OffsetOf(inputs_[1], item);
  }

  absl::Status CheckPivots(const KernelArgs& args) const {
    if (op_.function() != LinearAlgebra::LU_SOLVE) return absl::OkStatus();
    const int64_t n = inputs_[1].rows;
    for (int64_t item = 0; item < NumElements(batch_); ++item) {
      const int32_t* pivots = PivotsOf(args, item);
      for (int64_t i = 0; i < n; ++i) {
        const int32_t pivot = pivots[i * inputs_[1].row_stride];
        if (pivot >= 1 && pivot <= n) continue;
        return absl::InvalidArgumentError(
            absl::StrCat("linear_algebra: pivot ", i, " is ", pivot, ", expected a row from 1 to ", n));
      }
    }
    return absl::OkStatus();
  }

  void Read(const KernelArgs& args, size_t input, int64_t item, bool transposed, const Matrix& to) const {
    const Operand operand = transposed ? Transposed(inputs_[input]) : inputs_[input];
    const int64_t offset = OffsetOf(operand, item);
    if (operand.dtype == DType::kFloat32) {
      Load(static_cast<const float*>(args.inputs[input]) + offset, operand, to);
    } else {
      Load(static_cast<const double*>(args.inputs[input]) + offset, operand, to);
    }
  }

  void Write(const KernelArgs& args, size_t output, int64_t item, bool transposed, const Matrix& from) const {
    const Operand operand = transposed ? Transposed(outputs_[output]) : outputs_[output];
    const int64_t offset = OffsetOf(operand, item);
    if (operand.dtype == DType::kFloat32) {
      Store(from, operand, static_cast<float*>(args.outputs[output]) + offset);
    } else {
      Store(from, operand, static_cast<double*>(args.outputs[output]) + offset);
    }
  }

  int32_t* IntegersOf(const KernelArgs& args, size_t output, int64_t item) const {
    return static_cast<int32_t*>(args.outputs[output]) + OffsetOf(outputs_[output], item);
  }

  void RunOne(const KernelArgs& args, int64_t item, const Memory& memory) const {
    switch (op_.function()) {
      case LinearAlgebra::EIGH:
        return RunEigh(args, item, memory);
      case LinearAlgebra::SVD:
        return RunSvd(args, item, memory);
      case LinearAlgebra::QR:
        return RunQr(args, item, memory);
      case LinearAlgebra::LU:
        return RunLu(args, item, memory);
      case LinearAlgebra::LU_SOLVE:
        return RunLuSolve(args, item, memory);
      case LinearAlgebra::CHOLESKY:
        return RunCholesky(args, item, memory);
      default:
        return RunTriangularSolve(args, item, memory);
    }
  }

  void RunEigh(const KernelArgs& args, int64_t item, const Memory& memory) const {
    const Matrix values = {memory.values, memory.a.rows, 1};
    Read(args, 0, item, /*transposed=*/op_.upper(), memory.a);
    if (!Eigh(memory.a, outputs_.size() > 1, memory.values, memory.workspace)) {
      FillNan(values);
      FillNan(memory.a);
    }
    Write(args, 0, item, false, values);
    if (outputs_.size() > 1) Write(args, 1, item, false, memory.a);
  }

  void RunSvd(const KernelArgs& args, int64_t item, const Memory& memory) const {
    const bool wide = IsWide(), has_vectors = outputs_.size() > 1;
    const Matrix values = {memory.values, memory.a.columns, 1};
    Read(args, 0, item, wide, memory.a);
    if (!Svd(memory.a, {memory.values, memory.q, memory.v, has_vectors}, memory.workspace)) {
      FillNan(values);
      FillNan(memory.q);
      FillNan(memory.v);
    }
    Write(args, 0, item, false, values);
    if (!has_vectors) return;
    // A = U S V^T; A^T = V S U^T.
    Write(args, 1, item, false, wide ? memory.v : memory.q);
    Write(args, 2, item, true, wide ? memory.q : memory.v);
  }

  void RunQr(const KernelArgs& args, int64_t item, const Memory& memory) const {
    Read(args, 0, item, false, memory.a);
    if (!Qr(memory.a, memory.q, memory.workspace)) {
      FillNan(memory.a);
      FillNan(memory.q);
    }
    Write(args, 0, item, false, memory.q);
    Write(args, 1, item, false, memory.a);
  }

  void RunLu(const KernelArgs& args, int64_t item, const Memory& memory) const {
    Read(args, 0, item, false, memory.a);
    const int64_t info = Lu(memory.a, memory.pivots);
    Write(args, 0, item, false, memory.a);
    int32_t* pivots = IntegersOf(args, 1, item);
    for (int64_t i = 0; i < outputs_[1].rows; ++i) pivots[i * outputs_[1].row_stride] = memory.pivots[i] + 1;
    *IntegersOf(args, 2, item) = static_cast<int32_t>(info);
  }

  void RunLuSolve(const KernelArgs& args, int64_t item, const Memory& memory) const {
    const int32_t* pivots = PivotsOf(args, item);
    for (int64_t i = 0; i < inputs_[1].rows; ++i) memory.pivots[i] = pivots[i * inputs_[1].row_stride] - 1;
    Read(args, 0, item, op_.transpose(), memory.a);
    Read(args, 2, item, false, memory.b);
    if (op_.transpose()) {
      SolveByTransposedLu(memory.a, memory.pivots, memory.b);
    } else {
      SolveByLu(memory.a, memory.pivots, memory.b);
    }
    Write(args, 0, item, false, memory.b);
  }

  void RunCholesky(const KernelArgs& args, int64_t item, const Memory& memory) const {
    Read(args, 0, item, op_.upper(), memory.a);
    const int64_t info = Cholesky(memory.a);
    if (info != 0) FillNan(memory.a);
    const int64_t n = memory.a.rows;
    for (int64_t j = 0; j < n; ++j) std::fill_n(memory.a.data + j * n, j, 0.0);
    Write(args, 0, item, op_.upper(), memory.a);
    *IntegersOf(args, 1, item) = static_cast<int32_t>(info);
  }

  void RunTriangularSolve(const KernelArgs& args, int64_t item, const Memory& memory) const {
    Read(args, 0, item, op_.transpose(), memory.a);
    Read(args, 1, item, false, memory.b);
    SolveTriangle(memory.a, memory.b, {.upper = op_.upper() != op_.transpose(), .unit = op_.unit_diagonal()});
    Write(args, 0, item, false, memory.b);
  }

  const LinearAlgebra op_;
  DimVector batch_;
  std::vector<Operand> inputs_;
  std::vector<Operand> outputs_;
  int threads_ = 1;
  int64_t worker_bytes_ = 0;
};

}  // namespace
}  // namespace linear_algebra

absl::StatusOr<std::unique_ptr<Kernel>> MakeLinearAlgebra(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  return std::make_unique<linear_algebra::LinearAlgebraKernel>(request);
}

}  // namespace cotan::cpu
