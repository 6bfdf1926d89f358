// SPDX-License-Identifier: Apache-2.0

// Converts elements of data to the dtypes of a program's inputs.
#ifndef COTAN_RUNTIME_TRAINING_ELEMENT_CONVERSION_H_
#define COTAN_RUNTIME_TRAINING_ELEMENT_CONVERSION_H_

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"

namespace cotan::training {

// A conversion from one dtype to another.
struct ElementConversion {
  // Writes (value - mean) / deviation for `count` elements, rounded to nearest; integers and bools are converted as
  // they are. Elements are aligned.
  void (*convert)(const char* from, char* to, size_t count, double mean, double deviation) = nullptr;
  // Returns the index of the first of `count` elements that is not exact in an integer or bool dtype; -1 if there is
  // none.
  int64_t (*first_inexact)(const char* from, size_t count) = nullptr;
};

// Returns the conversion between bool, integers, f32 and f64 on one side and bool, u8, i32, i64, f32 and f64 on the
// other. Both functions are null for other dtypes.
ElementConversion FindConversion(DType from, DType to);

}  // namespace cotan::training

#endif  // COTAN_RUNTIME_TRAINING_ELEMENT_CONVERSION_H_
