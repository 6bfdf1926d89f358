// SPDX-License-Identifier: Apache-2.0

// Compiles a transformer of 2 and of 48 layers, and prints how long it takes and how large the programs are: the layers
// as part of the model, declared as blocks, and with a key; and the same model from an archive, with its layers as part
// of the model, and found as blocks. The second time of each is that of a whole process, which also loads LibTorch.
// `compile_time MODE` (inline, declared, keyed, exported or found) measures one of these.
// `compile_time MODE LAYERS [REPETITIONS [DUMP_DIR]]` only compiles a model of that depth, and
// `compile_time MODE ARCHIVE.pt2` an archive; with a number of repetitions, the program's methods are printed as well.
// `compile_time tool COMPILE` measures the compile tool on such archives.
#include <fcntl.h>
#include <malloc.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <torch/torch.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "aot/compile.h"
#include "aot/frontend/pt2/archive_builder.h"
#include "aot/frontend/pt2/model.h"
#include "base/status_macros.h"
#include "serialization/calls/shared_types.h"
#include "serialization/container/container.h"
#include "testing/blocks/exported_stack.h"
#include "testing/blocks/stack.h"

namespace cotan::testing {
namespace {

constexpr int64_t kBatch = 2, kTime = 16;

struct Measured {
  double seconds = 0;        // of the processor
  size_t program_bytes = 0;  // values and ops of methods and blocks
  size_t toc_bytes = 0;      // table of contents
  std::string methods;       // and blocks, a line each
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

// How the model is given to the compiler.
enum class Mode : uint8_t { kInline, kDeclared, kKeyed, kExported, kFound };

absl::StatusOr<aot::CompiledModel> CompileStack(int64_t layers, LayerCalls calls, const std::string& dump_dir) {
  TransformerOptions sizes;
  sizes.vocabulary = 64, sizes.width = 32, sizes.heads = 2, sizes.layers = layers, sizes.context = kTime;
  return aot::CompileModule([&] { return std::make_shared<Stack>(sizes, calls); },
                            {torch::zeros({kBatch, kTime}, torch::kLong)}, OptionsFor(dump_dir));
}

// Compiles an archive, which includes reading it.
absl::StatusOr<aot::CompiledModel> CompileArchive(const std::string& path, bool find_blocks,
                                                  const std::string& dump_dir) {
  COTAN_ASSIGN_OR_RETURN(const aot::pt2::Model model, aot::pt2::Model::Load(path));
  COTAN_ASSIGN_OR_RETURN(const std::vector<at::Tensor> examples, model.ExampleInputs());
  aot::CompileOptions options = OptionsFor(dump_dir);
  options.loss = {};
  options.loss.output = 0;
  options.find_blocks = find_blocks ? aot::FindBlocks::kOn : aot::FindBlocks::kOff;
  return aot::CompilePt2(model, examples, options, &model);
}

absl::StatusOr<aot::CompiledModel> CompileMode(int64_t layers, Mode mode, const std::string& archive,
                                               const std::string& dump_dir) {
  if (!archive.empty()) return CompileArchive(archive, mode == Mode::kFound, dump_dir);
  const LayerCalls calls = mode == Mode::kKeyed      ? LayerCalls::kKeyed
                           : mode == Mode::kDeclared ? LayerCalls::kDeclared
                                                     : LayerCalls::kInline;
  return CompileStack(layers, calls, dump_dir);
}

// Writes the archive of a mode that compiles one, and returns its path; "" for the other modes.
std::string ArchiveOf(int64_t layers, Mode mode) {
  if (mode != Mode::kExported && mode != Mode::kFound) return "";
  return aot::pt2::WriteArchive(
      absl::StrCat("stack", layers, ".pt2"),
      ExportedStack({.layers = layers, .batch = kBatch, .time = kTime, .vocabulary = 64, .width = 32, .heads = 2}));
}

// Adds the sizes of the programs of a compiled model.
absl::Status AddSizes(const aot::CompiledModel& model, Measured& measured) {
  for (const std::string& block : model.inlined_blocks()) std::printf("inlined: %s\n", block.c_str());
  COTAN_ASSIGN_OR_RETURN(const ArtifactFile file, ArtifactFile::Parse(model.bytes(), "model", cotan::Calls::kKeep));
  serialization::Artifact stored = file.artifact();
  OmitSharedTypes(stored);  // as in the file
  for (const auto* methods : {&stored.methods(), &stored.blocks()}) {
    for (const serialization::Method& method : *methods) {
      const size_t bytes = ProgramBytes(method);
      measured.program_bytes += bytes;
      absl::StrAppend(&measured.methods, "  ", method.name(), ": ", method.ops_size(), " ops, ", bytes, " bytes\n");
    }
  }
  measured.toc_bytes = stored.ByteSizeLong();
  return absl::OkStatus();
}

// What to measure besides the time.
enum class Sizes : uint8_t { kOmit, kAdd };

absl::StatusOr<Measured> Compile(int64_t layers, Mode mode, const std::string& archive, Sizes sizes,
                                 const std::string& dump_dir = "") {
  const std::clock_t start = std::clock();
  COTAN_ASSIGN_OR_RETURN(const aot::CompiledModel model, CompileMode(layers, mode, archive, dump_dir));
  Measured measured;
  measured.seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  if (sizes == Sizes::kAdd) COTAN_RETURN_IF_ERROR(AddSizes(model, measured));
  return measured;
}

// Returns the processor time of a process of `program`, which prints nothing here.
absl::StatusOr<double> ProcessSeconds(const std::string& program, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program);
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  const absl::Cleanup destroy = [&actions] { posix_spawn_file_actions_destroy(&actions); };
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t process = 0;
  if (const int error = posix_spawn(&process, program.c_str(), &actions, nullptr, argv.data(), environ); error != 0) {
    return absl::ErrnoToStatus(error, absl::StrCat("starting ", program));
  }
  rusage usage = {};
  int status = 0;
  if (wait4(process, &status, 0, &usage) != process) return absl::ErrnoToStatus(errno, "waiting for the process");
  if (status != 0) return absl::InternalError(absl::StrCat("the process ended with status ", status));
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// Runs processes that compile 2 and 48 layers, in turns, and prints the least times.
absl::Status MeasureProcesses(absl::string_view name, const std::string& program,
                              const std::vector<std::string>& of_two, const std::vector<std::string>& of_many) {
  constexpr int kRepetitions = 5;
  double shallow = std::numeric_limits<double>::infinity(), deep = shallow;
  for (int i = 0; i < kRepetitions; ++i) {
    COTAN_ASSIGN_OR_RETURN(const double two, ProcessSeconds(program, of_two));
    COTAN_ASSIGN_OR_RETURN(const double many, ProcessSeconds(program, of_many));
    shallow = std::min(shallow, two);
    deep = std::min(deep, many);
  }
  std::printf("%-8s  whole processes: %.0f and %.0f ms, %.2f times as long\n", std::string(name).c_str(), shallow * 1e3,
              deep * 1e3, deep / shallow);
  return absl::OkStatus();
}

// Measures the compile tool, without and with reference runs.
absl::Status MeasureTool(const std::string& tool) {
  const auto flags = [](int64_t layers, bool references) -> std::vector<std::string> {
    const std::string archive = ArchiveOf(layers, Mode::kFound);
    return {"--model=" + archive, "--out=" + archive + ".cotan",
            "--loss=output:0",    "--optimizer=adam",
            "--find_blocks=on",   references ? "--references" : "--noreferences"};
  };
  COTAN_RETURN_IF_ERROR(MeasureProcesses("tool", tool, flags(2, false), flags(48, false)));
  return MeasureProcesses("verified", tool, flags(2, true), flags(48, true));
}

absl::Status Measure(Mode mode, absl::string_view name) {
  constexpr int kRepetitions = 5;
  const std::string two_layers = ArchiveOf(2, mode), many_layers = ArchiveOf(48, mode);
  Measured shallow, deep;
  for (int i = 0; i < kRepetitions; ++i) {
    COTAN_ASSIGN_OR_RETURN(const Measured two, Compile(2, mode, two_layers, Sizes::kAdd));
    COTAN_ASSIGN_OR_RETURN(const Measured many, Compile(48, mode, many_layers, Sizes::kAdd));
    if (i == 0 || two.seconds < shallow.seconds) shallow = two;
    if (i == 0 || many.seconds < deep.seconds) deep = many;
  }
  std::printf("%-8s  2 layers: %6.1f ms, program %7zu bytes of %7zu; 48 layers: %7.1f ms, program %7zu bytes of %7zu; ",
              std::string(name).c_str(), shallow.seconds * 1e3, shallow.program_bytes, shallow.toc_bytes,
              deep.seconds * 1e3, deep.program_bytes, deep.toc_bytes);
  std::printf("%.2f times as long\n", deep.seconds / shallow.seconds);
  const std::string shown(name);
  return MeasureProcesses("", "/proc/self/exe", {shown, two_layers.empty() ? "2" : two_layers},
                          {shown, many_layers.empty() ? "48" : many_layers});
}

constexpr std::pair<Mode, absl::string_view> kModes[] = {{Mode::kInline, "inline"},
                                                         {Mode::kDeclared, "declared"},
                                                         {Mode::kKeyed, "keyed"},
                                                         {Mode::kExported, "exported"},
                                                         {Mode::kFound, "found"}};

// Arguments of the command line.
struct Arguments {
  std::string mode;     // empty: all; or "tool"
  int64_t layers = 0;   // 0: 2 and 48, or those of `archive`
  std::string archive;  // empty: one of a mode's own, or none
  std::string tool;
  int repetitions = 0;  // 0: once, without sizes
  std::string dump_dir;
};

absl::Status Run(const Arguments& arguments) {
  if (arguments.mode == "tool") return MeasureTool(arguments.tool);
  for (const auto& [mode, name] : kModes) {
    if (!arguments.mode.empty() && arguments.mode != name) continue;
    if (arguments.layers == 0 && arguments.archive.empty()) {
      COTAN_RETURN_IF_ERROR(Measure(mode, name));
      continue;
    }
    const std::string archive = arguments.archive.empty() ? ArchiveOf(arguments.layers, mode) : arguments.archive;
    const Sizes sizes = arguments.repetitions == 0 ? Sizes::kOmit : Sizes::kAdd;
    for (int i = 0; i < std::max(arguments.repetitions, 1); ++i) {
      COTAN_ASSIGN_OR_RETURN(const Measured measured,
                             Compile(arguments.layers, mode, archive, sizes, arguments.dump_dir));
      std::printf("%-8s %s: %7.1f ms\n", std::string(name).c_str(),
                  arguments.archive.empty() ? absl::StrCat(arguments.layers, " layers").c_str() : archive.c_str(),
                  measured.seconds * 1e3);
      if (i == 0) std::printf("%s", measured.methods.c_str());
    }
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace cotan::testing

int main(int argc, char** argv) {
  mallopt(M_MXFAST, 0);  // as in the compile tool
  cotan::testing::Arguments arguments;
  if (argc > 1) arguments.mode = argv[1];
  if (arguments.mode == "tool" && argc > 2) {
    arguments.tool = argv[2];
  } else if (argc > 2 && absl::EndsWith(argv[2], ".pt2")) {
    arguments.archive = argv[2];
  } else if (argc > 2) {
    arguments.layers = std::atoll(argv[2]);
  }
  if (argc > 3) arguments.repetitions = std::atoi(argv[3]);
  if (argc > 4) arguments.dump_dir = argv[4];
  const absl::Status status = cotan::testing::Run(arguments);
  if (status.ok()) return 0;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return 1;
}
