// SPDX-License-Identifier: Apache-2.0

// Average pools of dense rows with few channels, or row-major: a window has too few lanes for vectors, a row has not.
// The rows of a window are added first, then the windows of the sum.
#ifndef COTAN_KERNELS_CPU_POOL_AVERAGE_ROWS_H_
#define COTAN_KERNELS_CPU_POOL_AVERAGE_ROWS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "kernels/cpu/pool/average_pool.h"
#include "kernels/cpu/pool/pool_geometry.h"

namespace cotan::cpu {

// A range of positions along an axis.
struct PoolRange {
  int64_t begin;
  int64_t end;

  bool operator==(const PoolRange&) const = default;
};

// An average pool of elements T, float or double, row by row. A row is all positions of the last axis with all lanes.
template <typename T>
class AverageRows {
 public:
  // Returns true if the rows of `g` are dense and have fewer lanes than are worth a loop over windows.
  static bool Takes(const PoolGeometry& g);

  // `g` must outlive this object.
  AverageRows(const PoolGeometry& g, const AverageDivisor& divisor);

  // Returns the elements of scratch of a thread.
  int64_t ScratchElements() const { return 2 * row_elements_; }

  // Prepares the scratch for any number of calls of Forward().
  void BeginForward(T* scratch) const;
  // Computes output row [d, h] of the plane at `input`.
  void Forward(int64_t d, int64_t h, const T* input, T* scratch, T* output) const;

  // Computes all rows of the plane at `grad_input`.
  void Backward(const T* grad_output, T* scratch, T* grad_input) const;

 private:
  const PoolGeometry& g_;
  int64_t fixed_;                        // divisor, or 0
  std::array<std::vector<T>, 3> sizes_;  // factor of the divisor by output position of each axis
  // Output positions whose windows contain an input position of each axis.
  std::array<std::vector<PoolRange>, 3> covers_;
  int64_t inside_;        // input positions of a row that windows contain, from 0 on
  int64_t row_elements_;  // of a row of input with padding, or of output, and of one more vector
};

extern template class AverageRows<float>;
extern template class AverageRows<double>;

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_POOL_AVERAGE_ROWS_H_
