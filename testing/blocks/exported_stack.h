// SPDX-License-Identifier: Apache-2.0

// Archives of transformers, as torch.export writes them: equal layers with module stacks, and no declared blocks.
#ifndef COTAN_TESTING_BLOCKS_EXPORTED_STACK_H_
#define COTAN_TESTING_BLOCKS_EXPORTED_STACK_H_

#include <cstdint>
#include <string>

#include "aot/frontend/pt2/archive_builder.h"
#include "aot/frontend/pt2/program_builder.h"

namespace cotan::testing {

struct ExportedStackOptions {
  int64_t layers = 4;
  int64_t batch = 4;
  int64_t time = 16;
  int64_t vocabulary = 64;
  int64_t width = 32;
  int64_t heads = 2;
  double dropout = 0;
  bool train = true;               // mode of the export
  bool has_dynamic_batch = false;  // "s0", from 2 to 32
  bool has_module_stacks = true;   // without, no layer is found
};

// Adds layers of the model in testing/blocks/stack.h to a program.
class LayerBuilder {
 public:
  LayerBuilder(const ExportedStackOptions& options, aot::pt2::ProgramBuilder& program)
      : options_(options), b_(program) {}

  // Sets the size of dimension 0 of the layers' input.
  void SetBatch(const std::string& batch) { batch_ = batch; }
  // Adds layer(x) as the module `path`, and its parameters.
  std::string Layer(const std::string& path, const std::string& x);
  // Add modules without their own stack entry.
  std::string Linear(const std::string& path, const std::string& x, int64_t in, int64_t out);
  std::string Norm(const std::string& path, const std::string& x);

 private:
  std::string Attend(const std::string& path, const std::string& x);
  std::string Dropout(const std::string& x);

  const ExportedStackOptions options_;
  aot::pt2::ProgramBuilder& b_;
  std::string batch_;
  std::string rows_;  // batch * time; computed by the first layer
};

// Returns the archive of tokens [batch, time], targets [batch, time] -> the cross entropy of a stack of layers
// "layers.0", "layers.1", ...
aot::pt2::ArchiveFiles ExportedStack(const ExportedStackOptions& options);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_BLOCKS_EXPORTED_STACK_H_
