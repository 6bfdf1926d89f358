// SPDX-License-Identifier: Apache-2.0

// Compares training steps of a compiled model with those of LibTorch eager.
#ifndef COTAN_TESTING_E2E_STEP_COMPARISON_H_
#define COTAN_TESTING_E2E_STEP_COMPARISON_H_

#include <cstdint>

#include "aot/optimizer/optimizer.h"
#include "testing/models/models.h"

namespace cotan::testing {

// Trains the model for three steps, compiled and in eager mode, with new batches, from the parameters of this seed.
// Expects that losses differ by at most `loss_tolerance`, and states by at most kModelDrift in units of their dtype,
// f32 or f64.
void ExpectStepsMatchEager(const ModelCase& model, const aot::OptimizerConfig& optimizer, uint64_t seed,
                           double loss_tolerance = 1e-5);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_E2E_STEP_COMPARISON_H_
