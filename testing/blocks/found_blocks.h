// SPDX-License-Identifier: Apache-2.0

// Archives compiled with and without CompileOptions.find_blocks: the two beside each other, and beside LibTorch eager.
// The test fails where they differ.
#ifndef COTAN_TESTING_BLOCKS_FOUND_BLOCKS_H_
#define COTAN_TESTING_BLOCKS_FOUND_BLOCKS_H_

#include <torch/torch.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "aot/compile.h"
#include "aot/frontend/pt2/archive_builder.h"
#include "aot/frontend/pt2/model.h"
#include "runtime/session.h"
#include "runtime/tensor.h"

namespace cotan::testing {

using CallCounts = std::map<std::string, int>;
using Tensors = std::vector<torch::Tensor>;
using Batches = std::function<Tensors(int step)>;

// Writes the archive and reads it.
aot::pt2::Model Load(const aot::pt2::ArchiveFiles& files);
// Returns options of SGD with momentum, whose stored calls are those of the trace.
aot::CompileOptions TrainingOptions(bool find_blocks);
// Compiles the archive for its example inputs.
aot::CompiledModel Compile(const aot::pt2::Model& model, const aot::CompileOptions& options);
std::vector<Tensor> Arguments(const Tensors& tensors);
// Returns a session on one thread, whose generator has the seed 0.
Session MakeSession(const aot::CompiledModel& model);
// Trains two artifacts with the same batches and expects the same losses, gradients and states.
void ExpectSameSteps(const aot::CompiledModel& actual, const aot::CompiledModel& expected, const Batches& batch,
                     int steps = 3);
// Expects the loss and the gradients of parameters of LibTorch eager, and the buffers after the call.
void ExpectEager(const aot::CompiledModel& compiled, const aot::pt2::Model& model, const Tensors& batch);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_BLOCKS_FOUND_BLOCKS_H_
