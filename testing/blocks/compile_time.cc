// SPDX-License-Identifier: Apache-2.0

// Compiles a transformer of 2 and of 48 layers, and prints how long it takes and how large the programs are: the layers
// as part of the model, declared as blocks, and with a key.
#include <torch/torch.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "aot/compile.h"
#include "base/status_macros.h"
#include "serialization/container/container.h"
#include "testing/blocks/stack.h"

namespace cotan::testing {
namespace {

constexpr int64_t kBatch = 2, kTime = 16;

struct Measured {
  double seconds = 0;        // of the processor
  size_t program_bytes = 0;  // values and ops of methods and blocks
  size_t toc_bytes = 0;      // table of contents
};

aot::CompileOptions OptionsFor(const std::string& dump_dir) {
  aot::CompileOptions options;
  options.loss.function = [](const auto& outputs, const auto& targets) {
    return torch::nn::functional::cross_entropy(outputs[0], targets[0]);
  };
  options.loss.targets = {torch::zeros({kBatch * kTime}, torch::kLong)};
  options.optimizer = aot::OptimizerConfig{aot::AdamOptions{}};
  options.debug.store_references = false;
  options.debug.dump_dir = dump_dir;
  return options;
}

size_t ProgramBytes(const serialization::Method& method) {
  size_t bytes = 0;
  for (const serialization::Value& value : method.values()) bytes += value.ByteSizeLong();
  for (const serialization::Op& op : method.ops()) bytes += op.ByteSizeLong();
  return bytes;
}

absl::StatusOr<Measured> Compile(int64_t layers, LayerCalls calls, const std::string& dump_dir = "") {
  TransformerOptions sizes;
  sizes.vocabulary = 64, sizes.width = 32, sizes.heads = 2, sizes.layers = layers, sizes.context = kTime;
  const std::clock_t start = std::clock();
  COTAN_ASSIGN_OR_RETURN(const aot::CompiledModel model,
                         aot::CompileModule([&] { return std::make_shared<Stack>(sizes, calls); },
                                            {torch::zeros({kBatch, kTime}, torch::kLong)}, OptionsFor(dump_dir)));
  Measured measured;
  measured.seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  for (const std::string& block : model.inlined_blocks()) std::printf("inlined: %s\n", block.c_str());
  COTAN_ASSIGN_OR_RETURN(const ArtifactFile file, ArtifactFile::Parse(model.bytes(), "model", cotan::Calls::kKeep));
  for (const serialization::Method& method : file.artifact().methods()) measured.program_bytes += ProgramBytes(method);
  for (const serialization::Method& block : file.artifact().blocks()) measured.program_bytes += ProgramBytes(block);
  measured.toc_bytes = file.artifact().ByteSizeLong();
  return measured;
}

absl::Status Measure(LayerCalls calls, absl::string_view name) {
  constexpr int kRepetitions = 5;
  Measured shallow, deep;
  for (int i = 0; i < kRepetitions; ++i) {
    COTAN_ASSIGN_OR_RETURN(const Measured two, Compile(2, calls));
    COTAN_ASSIGN_OR_RETURN(const Measured many, Compile(48, calls));
    if (i == 0 || two.seconds < shallow.seconds) shallow = two;
    if (i == 0 || many.seconds < deep.seconds) deep = many;
  }
  std::printf("%-8s  2 layers: %6.1f ms, program %7zu bytes of %7zu; 48 layers: %7.1f ms, program %7zu bytes of %7zu; ",
              std::string(name).c_str(), shallow.seconds * 1e3, shallow.program_bytes, shallow.toc_bytes,
              deep.seconds * 1e3, deep.program_bytes, deep.toc_bytes);
  std::printf("%.2f times as long\n", deep.seconds / shallow.seconds);
  return absl::OkStatus();
}

// `name`: inline, declared or keyed; "": all of them.
absl::Status Run(absl::string_view name, const std::string& dump_dir) {
  for (const auto& [calls, mode] :
       {std::pair(LayerCalls::kInline, "inline"), std::pair(LayerCalls::kDeclared, "declared"),
        std::pair(LayerCalls::kKeyed, "keyed")}) {
    if (name.empty() || name == mode) COTAN_RETURN_IF_ERROR(Measure(calls, mode));
  }
  if (dump_dir.empty()) return absl::OkStatus();
  return Compile(48, LayerCalls::kKeyed, dump_dir).status();
}

}  // namespace
}  // namespace cotan::testing

int main(int argc, char** argv) {
  const absl::Status status = cotan::testing::Run(argc > 1 ? argv[1] : "", argc > 2 ? argv[2] : "");
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}
