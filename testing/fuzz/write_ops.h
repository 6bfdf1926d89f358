// SPDX-License-Identifier: Apache-2.0

// Append ops with random attributes and operands to a method. Each function appends nothing if no value fits.
#ifndef COTAN_TESTING_FUZZ_WRITE_OPS_H_
#define COTAN_TESTING_FUZZ_WRITE_OPS_H_

#include "testing/fuzz/method_writer.h"

namespace cotan::testing {

// An expression over the sizes of a value, with operands that broadcast to it, and reductions.
void WriteExpr(MethodWriter& w);
// One to three view steps.
void WriteView(MethodWriter& w);
void WriteCopy(MethodWriter& w);
// A product of matrices, in some cases of a batch, with an addend or an epilogue.
void WriteMatmul(MethodWriter& w);
// Index ops, with an index in range.
void WriteGather(MethodWriter& w);
void WriteScatterAdd(MethodWriter& w);
void WriteConcat(MethodWriter& w);
void WriteScan(MethodWriter& w);
void WriteSort(MethodWriter& w);
// Windows over images: pools, convolutions and their gradients.
void WritePool(MethodWriter& w);
void WriteConvolution(MethodWriter& w);
// A print.
void WriteEffect(MethodWriter& w);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_FUZZ_WRITE_OPS_H_
