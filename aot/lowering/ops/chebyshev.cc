// SPDX-License-Identifier: Apache-2.0

#include "aot/lowering/ops/chebyshev.h"

#include <algorithm>
#include <cmath>

namespace cotan::aot {

Tensor ChebyshevSum(Builder& b, const Tensor& t, absl::Span<const double> coefficients) {
  double largest = 0;
  for (const double c : coefficients) largest = std::max(largest, std::abs(c));
  const double negligible = t.dtype() == DType::kFloat64 ? 0 : 1e-10 * largest;
  size_t count = coefficients.size();
  while (count > 1 && std::abs(coefficients[count - 1]) < negligible) --count;
  if (count == 1) return b.Full(b.Literal(coefficients[0]), t.dtype(), t.sizes());
  // Clenshaw: s_k = c_k + 2 t s_(k+1) - s_(k+2); the sum is c_0 + t s_1 - s_2.
  const Tensor twice = t + t;
  Tensor sum = b.Full(b.Literal(coefficients[count - 1]), t.dtype(), {}), after;
  for (size_t k = count - 1; k-- > 0;) {
    const Tensor c = b.Literal(coefficients[k]);
    const Tensor next = (k == 0 ? t : twice) * sum + (after.defined() ? c - after : c);
    after = sum;
    sum = next;
  }
  return sum;
}

}  // namespace cotan::aot
