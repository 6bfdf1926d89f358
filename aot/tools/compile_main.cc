// SPDX-License-Identifier: Apache-2.0

// Compiles a registered model, or one from a .pt2 archive; see --help.
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/flags/usage_config.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "aot/compile.h"
#include "aot/cuda/cuda_flags.h"
#include "aot/cuda/embed_kernels.h"
#include "aot/frontend/pt2/model.h"
#include "aot/memory/fit_memory.h"
#include "aot/model_registry.h"
#include "aot/saved_tensor_hooks/hook_pairs.h"
#include "aot/tools/artifact_summary.h"
#include "aot/tools/dynamic_flag.h"
#include "aot/tools/lora_flag.h"
#include "aot/tools/loss_flag.h"
#include "aot/tools/optimizer_flag.h"
#include "aot/tools/quantize_flag.h"
#include "base/dtype.h"
#include "base/status_macros.h"
#include "base/version.h"
#include "kernels/cpu/register_cpu.h"
#include "serialization/container/container.h"

ABSL_FLAG(bool, list, false, "print the registered models and exit");
ABSL_FLAG(std::string, model, "",
          "name of the model, not needed if there is only one; or a .pt2 archive of torch.export.save");
ABSL_FLAG(std::string, eval, "",
          "with a .pt2 model: archive of the same module in eval mode, which becomes the method eval");
ABSL_FLAG(std::string, loss, "", "with a .pt2 model: the loss, as 'output:0' or 'cross_entropy(output:0,label)'");
ABSL_FLAG(std::vector<std::string>, dynamic, {}, "dynamic dimensions, as 'input.0:0=batch[1:64],target.0:0=batch'");
ABSL_FLAG(std::string, precision, "", "bf16 or f16: run under autocast; f32: no autocast");
ABSL_FLAG(std::string, max_memory, "",
          "memory limit of every method besides states, arguments and results, as '64MiB'; it is met by "
          "rematerialization");
ABSL_FLAG(std::string, partitioner, "",
          "how forward and backward are cut: min_cut computes cheap values again instead of saving them, default saves "
          "what the backward reads; empty: the model's");
ABSL_FLAG(double, activation_memory_budget, 1,
          "share of the bytes that min_cut saves, from 0 to 1; the rest is rematerialized");
ABSL_FLAG(bool, repeat_cheap_ops, true, "compute values again where that saves much memory for little time");
ABSL_FLAG(bool, peaks, false, "print the peak memory of each method, as cotan inspect does");
ABSL_FLAG(int, memory_threads, 1,
          "number of threads of a session, for which --max_memory, --peaks and the memory of budgets are computed");
ABSL_FLAG(std::string, saved_tensor_hooks, "",
          "how values are saved for the backward: bf16, fp8_e4m3, fp8_e4m3_scaled, fp8_e5m2, fp8_e5m2_scaled, int8, "
          "or host (beside a GPU, in host memory), with ':no_static' or ':all' for more than activations");
ABSL_FLAG(int64_t, max_data_size, 0,
          "how many elements ops return at most whose results have as many as the data decides (nonzero, x[mask], "
          "unique), where a .pt2 archive has no maximum; 0: the model's");
ABSL_FLAG(std::string, out, "", "file to write");
ABSL_FLAG(std::string, optimizer, "",
          "sgd, adam or adamw with settings, as 'adamw(lr=1e-3,weight_decay=0.01)'; "
          "replaces that of the model");
ABSL_FLAG(std::vector<std::string>, freeze, {},
          "patterns of parameters that are not trained, as 'backbone.*'; added to those of the model");
ABSL_FLAG(std::string, lora, "",
          "linear layers that get low-rank adapters, as '*.q_proj,*.v_proj:r=8,alpha=16'; their model is frozen");
ABSL_FLAG(std::vector<std::string>, lora_train, {},
          "with --lora: patterns of parameters that are trained, too, as 'classifier.*'");
ABSL_FLAG(std::string, quantize, "",
          "frozen parameters that are stored as 8-bit or 4-bit integers, as '*.weight:int8' or '*:int4,group=32'");
ABSL_FLAG(double, clip_norm, 0, "limit of the norm of all gradients; 0: the model's default");
ABSL_FLAG(bool, accumulate, false, "add methods that accumulate gradients over several batches");
ABSL_FLAG(bool, references, true, "store the results of the example inputs for cotan verify");
ABSL_FLAG(int64_t, seed, -1, "seed of initial parameters and random ops; -1: the model's default");
ABSL_FLAG(bool, loss_scaling, false, "scale the loss as torch.amp.GradScaler does; for --precision=f16");
ABSL_FLAG(std::string, target, "cpu",
          "cuda: compile for a GPU (attention in one op), and refuse the model if the CUDA backend lacks a kernel for "
          "one of its ops");
ABSL_FLAG(std::string, attention, "",
          "form of scaled_dot_product_attention: fused (one op), composed (products and a softmax), or auto (fused "
          "where that is expected to be faster on --target); empty: the model's");
ABSL_FLAG(std::vector<std::string>, cuda_arch, {},
          "GPUs for which kernels are compiled into the artifact, as 'sm_90,sm_100'; implies --target=cuda");
ABSL_FLAG(std::vector<std::string>, cuda_sizes, {},
          "values of the dynamic dimensions for --cuda_arch, as 'batch=8:length=64,batch=1:length=64'; "
          "their maxima if empty");
ABSL_FLAG(int, order, 0,
          "number of times that the method \"forward\" can be differentiated, 1 to 4 (docs/higher_order.md); 0: the "
          "model's");
ABSL_FLAG(
    std::string, find_blocks, "off",
    "with a .pt2 model: compile equal modules, such as layers, once (docs/blocks.md): on; auto: where at least 8 are "
    "equal; off");
ABSL_FLAG(std::string, dump_dir, "",
          "folder for the graph after each stage, metadata, programs, schedules, and timings");
ABSL_FLAG(std::string, cache_dir, "", "folder of the compile cache");

namespace cotan::aot {
namespace {

void List(const std::vector<ModelDefinition>& models) {
  for (const ModelDefinition& model : models) {
    std::printf("%-20s %s\n", model.name.c_str(), model.description.c_str());
  }
}

absl::StatusOr<const ModelDefinition*> FindModel(const std::vector<ModelDefinition>& models, const std::string& name) {
  if (name.empty() && models.size() == 1) return &models[0];
  for (const ModelDefinition& model : models) {
    if (model.name == name) return &model;
  }
  if (models.empty()) {
    return absl::NotFoundError("this tool has no registered models: give --model=FILE.pt2");
  }
  return absl::NotFoundError(absl::StrCat(
      name.empty() ? "give --model=NAME" : absl::StrCat("there is no model '", name, "'"), "; there are ",
      absl::StrJoin(models, ", ", [](std::string* out, const ModelDefinition& model) { out->append(model.name); })));
}

absl::Status CheckFlags(bool archive) {
  if (archive) return absl::OkStatus();
  if (!absl::GetFlag(FLAGS_eval).empty() || !absl::GetFlag(FLAGS_loss).empty()) {
    return absl::InvalidArgumentError("--eval and --loss are for .pt2 models; a registered model has its own");
  }
  return absl::OkStatus();
}

absl::StatusOr<DType> ParsePrecision(const std::string& text) {
  if (text == "f32") return DType::kUndefined;
  if (text == "bf16") return DType::kBFloat16;
  if (text == "f16") return DType::kFloat16;
  return absl::InvalidArgumentError(absl::StrCat("there is no precision '", text, "'; there are f32, bf16 and f16"));
}

absl::StatusOr<Partitioner> ParsePartitioner(const std::string& text) {
  if (text == "default") return Partitioner::kDefault;
  if (text == "min_cut") return Partitioner::kMinCut;
  return absl::InvalidArgumentError(
      absl::StrCat("there is no partitioner '", text, "'; there are default and min_cut"));
}

absl::StatusOr<AttentionForm> ParseAttention(const std::string& text) {
  if (text == "auto") return AttentionForm::kAuto;
  if (text == "composed") return AttentionForm::kComposed;
  if (text == "fused") return AttentionForm::kFused;
  return absl::InvalidArgumentError(absl::StrCat("--attention=", text, ": known are auto, composed and fused"));
}

absl::StatusOr<FindBlocks> ParseFindBlocks(const std::string& text) {
  if (text == "off") return FindBlocks::kOff;
  if (text == "auto") return FindBlocks::kAuto;
  if (text == "on") return FindBlocks::kOn;
  return absl::InvalidArgumentError(absl::StrCat("--find_blocks=", text, ": known are on, auto and off"));
}

// Returns whether --target or --cuda_arch names a GPU.
absl::StatusOr<bool> IsForCuda() {
  const std::string target = absl::GetFlag(FLAGS_target);
  if (target != "cpu" && target != "cuda") {
    return absl::InvalidArgumentError(absl::StrCat("--target=", target, ": known are cpu and cuda"));
  }
  return target == "cuda" || !absl::GetFlag(FLAGS_cuda_arch).empty();
}

MemoryTarget CpuTarget() {
  return {.kernels = &CpuKernels(), .threads = std::max(absl::GetFlag(FLAGS_memory_threads), 1)};
}

// Applies the flags to `options`. `num_inputs` is the number of inputs of the model.
absl::Status ApplyFlags(size_t num_inputs, CompileOptions& options) {
  for (const std::string& text : absl::GetFlag(FLAGS_dynamic)) {
    COTAN_ASSIGN_OR_RETURN(options.dynamic_dims.emplace_back(), ParseDynamicDim(text, static_cast<int>(num_inputs)));
  }
  if (const std::string text = absl::GetFlag(FLAGS_precision); !text.empty()) {
    COTAN_ASSIGN_OR_RETURN(options.tracing.autocast, ParsePrecision(text));
  }
  if (const std::string text = absl::GetFlag(FLAGS_attention); !text.empty()) {
    COTAN_ASSIGN_OR_RETURN(options.tracing.attention, ParseAttention(text));
  }
  COTAN_ASSIGN_OR_RETURN(const bool for_cuda, IsForCuda());
  if (for_cuda) options.target = CompileTarget::kCuda;
  if (const int64_t most = absl::GetFlag(FLAGS_max_data_size); most != 0) {
    options.tracing.data_dependent_sizes.range = SizeRange{.min = 0, .max = most};
  }
  if (const std::string text = absl::GetFlag(FLAGS_optimizer); !text.empty()) {
    COTAN_ASSIGN_OR_RETURN(OptimizerOptions optimizer, ParseOptimizer(text));
    options.optimizer = OptimizerConfig();
    options.optimizer->options = optimizer;
  }
  if (const double limit = absl::GetFlag(FLAGS_clip_norm); limit != 0) {
    if (!options.optimizer.has_value()) {
      return absl::InvalidArgumentError("--clip_norm needs an optimizer");
    }
    options.optimizer->clip_norm = limit;
  }
  if (absl::GetFlag(FLAGS_loss_scaling)) {
    if (!options.optimizer.has_value()) return absl::InvalidArgumentError("--loss_scaling needs an optimizer");
    options.optimizer->loss_scaling = LossScaling();
  }
  for (const std::string& pattern : absl::GetFlag(FLAGS_freeze)) options.module.frozen.push_back(pattern);
  if (const std::string text = absl::GetFlag(FLAGS_lora); !text.empty()) {
    COTAN_ASSIGN_OR_RETURN(options.module.lora, ParseLora(text));
    options.module.lora.trained = absl::GetFlag(FLAGS_lora_train);
  }
  if (const std::string text = absl::GetFlag(FLAGS_quantize); !text.empty()) {
    COTAN_ASSIGN_OR_RETURN(options.module.quantize, ParseQuantize(text));
  }
  if (absl::GetFlag(FLAGS_accumulate)) options.methods.accumulate = true;
  if (!absl::GetFlag(FLAGS_references)) options.debug.store_references = false;
  if (absl::GetFlag(FLAGS_seed) >= 0) options.module.seed = static_cast<uint64_t>(absl::GetFlag(FLAGS_seed));
  if (const std::string text = absl::GetFlag(FLAGS_max_memory); !text.empty()) {
    COTAN_ASSIGN_OR_RETURN(const int64_t bytes, ParseBytes(text));
    options.max_memory = MemoryLimit{bytes, CpuTarget()};
  }
  if (const std::string text = absl::GetFlag(FLAGS_partitioner); !text.empty()) {
    COTAN_ASSIGN_OR_RETURN(options.partitioner, ParsePartitioner(text));
  }
  if (const double budget = absl::GetFlag(FLAGS_activation_memory_budget); budget != 1) {
    options.activation_memory_budget = budget;
  }
  options.memory_target = CpuTarget();
  options.repeat_cheap_ops = absl::GetFlag(FLAGS_repeat_cheap_ops);
  if (const int order = absl::GetFlag(FLAGS_order); order != 0) options.order = order;
  if (const std::string text = absl::GetFlag(FLAGS_saved_tensor_hooks); !text.empty()) {
    COTAN_ASSIGN_OR_RETURN(options.saved_tensor_hooks, ParseSavedTensorHooks(text));
  }
  COTAN_ASSIGN_OR_RETURN(options.find_blocks, ParseFindBlocks(absl::GetFlag(FLAGS_find_blocks)));
  options.debug.dump_dir = absl::GetFlag(FLAGS_dump_dir);
  options.cache_dir = absl::GetFlag(FLAGS_cache_dir);
  return absl::OkStatus();
}

void Progress(absl::string_view what) { std::fprintf(stderr, "%s ...\n", std::string(what).c_str()); }

absl::StatusOr<CompiledModel> CompileArchive(const std::string& path) {
  Progress(absl::StrCat("reading ", path));
  COTAN_ASSIGN_OR_RETURN(const pt2::Model model, pt2::Model::Load(path));
  std::optional<pt2::Model> eval;
  if (const std::string eval_path = absl::GetFlag(FLAGS_eval); !eval_path.empty()) {
    COTAN_ASSIGN_OR_RETURN(eval, pt2::Model::Load(eval_path));
  }
  COTAN_ASSIGN_OR_RETURN(const std::vector<at::Tensor> examples, model.ExampleInputs());
  CompileOptions options;
  COTAN_RETURN_IF_ERROR(ApplyFlags(examples.size(), options));
  const std::string loss = absl::GetFlag(FLAGS_loss);
  if (!loss.empty()) {
    COTAN_ASSIGN_OR_RETURN(const LossFlag flag, ParseLoss(loss));
    COTAN_RETURN_IF_ERROR(SetLoss(flag, model.OutputShapes(), options));
  }
  if (loss.empty() == options.optimizer.has_value()) {
    return absl::InvalidArgumentError(
        "a training step needs both --loss ('output:0' if the model returns it first) and --optimizer");
  }
  Progress("compiling");
  return CompilePt2(model, examples, options, eval.has_value() ? &*eval : nullptr);
}

absl::StatusOr<CompiledModel> CompileRegistered(const std::vector<ModelDefinition>& models, const std::string& name) {
  COTAN_ASSIGN_OR_RETURN(const ModelDefinition* model, FindModel(models, name));
  const std::vector<at::Tensor> examples = model->examples();
  CompileOptions options = model->options();
  COTAN_RETURN_IF_ERROR(ApplyFlags(examples.size(), options));
  return CompileModule(model->factory, examples, options);
}

// Returns the owner of bytes that live as long as `compiled`.
std::shared_ptr<const void> Borrowed(const CompiledModel& compiled) {
  return {std::shared_ptr<const void>(), &compiled};
}

// Returns the memory of each method, for --peaks and with the effect of --max_memory; without these flags, and if a
// dimension has no maximum, nothing.
absl::StatusOr<std::vector<MethodMemory>> MemoryOf(const CompiledModel& compiled) {
  std::vector<MethodMemory> memory;
  for (const MethodSummary& summary : compiled.methods()) {
    if (summary.memory.has_value()) memory.push_back(*summary.memory);
  }
  if (!memory.empty() || !absl::GetFlag(FLAGS_peaks)) return memory;
  COTAN_ASSIGN_OR_RETURN(const ArtifactFile file, ArtifactFile::ParseShared(compiled.bytes(), Borrowed(compiled)));
  return MeasureMemory(file.artifact(), CpuTarget()).value_or(memory);
}

// Returns the memory part of a summary line: ", peak 3.1 MiB instead of 6.0 MiB, 12 ops
// recomputed".
std::string MemoryText(const std::string& method, const std::vector<MethodMemory>& memory) {
  for (const MethodMemory& fitted : memory) {
    if (fitted.name != method) continue;
    std::string text = absl::StrCat(", peak ", BytesText(fitted.after));
    if (fitted.repeated_ops == 0) return text;
    return absl::StrCat(text, " instead of ", BytesText(fitted.before), ", ", fitted.repeated_ops, " ops recomputed");
  }
  return "";
}

void PrintSummary(const CompiledModel& compiled, const serialization::Artifact& artifact,
                  const std::vector<MethodMemory>& memory, const std::string& out, double seconds) {
  const ParameterCount parameters = ParametersOf(artifact);
  std::printf("%s: %zu bytes, %lld parameters (%lld trained), compiled in %.1f s\n", out.c_str(),
              compiled.bytes().size(), static_cast<long long>(parameters.all),
              static_cast<long long>(parameters.trained), seconds);
  const CacheOutcome& cache = compiled.cache();
  if (cache.kind != CacheOutcome::Kind::kDisabled) {
    std::printf("  cache: %s%s%s\n", std::string(CacheOutcomeName(cache.kind)).c_str(),
                cache.reason.empty() ? "" : ", ", cache.reason.c_str());
  }
  for (const serialization::Method& method : artifact.methods()) {
    int traced = 0;
    for (const MethodSummary& summary : compiled.methods()) {
      if (summary.name == method.name()) traced = summary.traced_ops;
    }
    std::printf("  %-16s %5d traced ops -> %4lld ops%s", method.name().c_str(), traced,
                static_cast<long long>(NumOps(artifact, method)), MemoryText(method.name(), memory).c_str());
    if (const int64_t saved = SavedBytes(method); saved > 0) {
      std::printf(", saved for the backward %s", BytesText(saved).c_str());
    }
    std::printf("\n");
    if (!method.backward_refusal().empty()) {
      std::printf("  no backward of '%s': %s\n", method.name().c_str(), method.backward_refusal().c_str());
    }
  }
  for (const std::string& block : compiled.inlined_blocks()) std::printf("  inlined: %s\n", block.c_str());
}

// Checks the model for --target, and adds the kernels of --cuda_arch.
absl::StatusOr<CompiledModel> ForTarget(CompiledModel compiled) {
  COTAN_ASSIGN_OR_RETURN(const bool for_cuda, IsForCuda());
  if (!for_cuda) return compiled;
  CudaKernelOptions options;
  COTAN_ASSIGN_OR_RETURN(options.compute_capabilities, ParseCudaArchitectures(absl::GetFlag(FLAGS_cuda_arch)));
  Progress("planning CUDA kernels");
  COTAN_ASSIGN_OR_RETURN(const ArtifactFile file, ArtifactFile::Parse(compiled.bytes()));
  for (const serialization::Method& method : file.artifact().methods()) {
    if (!method.has_continuation()) continue;
    return absl::UnimplementedError(absl::StrCat("--target=cuda: method '", method.continuation().method(),
                                                 "' has sizes that depend on data, which are counted on the CPU only"));
  }
  COTAN_ASSIGN_OR_RETURN(options.sizes, ParseCudaSizes(absl::GetFlag(FLAGS_cuda_sizes), file.artifact()));
  COTAN_ASSIGN_OR_RETURN(std::string bytes, EmbedCudaKernels(compiled.bytes(), options));
  return CompiledModel(std::move(bytes), compiled.methods(), compiled.cache(), compiled.inlined_blocks());
}

absl::Status Run() {
  const std::vector<ModelDefinition> models = RegisteredModels();
  if (absl::GetFlag(FLAGS_list)) {
    List(models);
    return absl::OkStatus();
  }
  const std::string out = absl::GetFlag(FLAGS_out);
  if (out.empty()) return absl::InvalidArgumentError("give --out=FILE, or --list");
  const std::string name = absl::GetFlag(FLAGS_model);
  const bool archive = absl::EndsWith(name, ".pt2");
  COTAN_RETURN_IF_ERROR(CheckFlags(archive));
  const auto start = std::chrono::steady_clock::now();
  COTAN_ASSIGN_OR_RETURN(CompiledModel model, archive ? CompileArchive(name) : CompileRegistered(models, name));
  COTAN_ASSIGN_OR_RETURN(const CompiledModel compiled, ForTarget(std::move(model)));
  COTAN_ASSIGN_OR_RETURN(const ArtifactFile file, ArtifactFile::ParseShared(compiled.bytes(), Borrowed(compiled),
                                                                            "the compiled model", Calls::kKeep));
  COTAN_ASSIGN_OR_RETURN(const std::vector<MethodMemory> memory, MemoryOf(compiled));
  COTAN_RETURN_IF_ERROR(compiled.Save(out));
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  PrintSummary(compiled, file.artifact(), memory, out, elapsed.count());
  return absl::OkStatus();
}

// Accepts dashes in names of flags: "--max-memory=1" -> "--max_memory=1".
std::string WithUnderscores(absl::string_view argument) {
  const size_t equals = std::min(argument.find('='), argument.size());
  if (!absl::StartsWith(argument, "--")) return std::string(argument);
  return absl::StrCat("--", absl::StrReplaceAll(argument.substr(2, equals - 2), {{"-", "_"}}), argument.substr(equals));
}

}  // namespace
}  // namespace cotan::aot

int main(int argc, char** argv) {
  // Compilation frees many small chunks, which glibc would join each time that it needs a large one: 6 % of the tool's
  // time with 48 layers (compile_time tool).
  mallopt(M_MXFAST, 0);
  absl::FlagsUsageConfig config;
  config.version_string = [] { return absl::StrCat("cotan ", cotan::kVersion, "\n"); };
  absl::SetFlagsUsageConfig(config);
  absl::SetProgramUsageMessage(
      "Compiles a LibTorch model into a .cotan artifact.\n"
      "  compile --list\n"
      "  compile --model=NAME --out=FILE [--optimizer='adamw(lr=1e-3)'] [--dump_dir=DIR] ...\n"
      "  compile --model=m.pt2 --out=FILE --loss=output:0 --optimizer='sgd(lr=0.1)' [--eval=m_eval.pt2]\n"
      "  compile --model=m.pt2 --out=FILE --loss='cross_entropy(output:0,label)' --optimizer=adam [--freeze='stem.*']\n"
      "Without --loss and --optimizer, the methods are forward and backward only.");
  std::vector<std::string> arguments;
  for (int i = 0; i < argc; ++i) arguments.push_back(cotan::aot::WithUnderscores(argv[i]));
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  absl::ParseCommandLine(argc, pointers.data());
  const absl::Status status = cotan::aot::Run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return 1;
}
