// Compiles a registered model; see --help.
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aot/compile.h"
#include "aot/model_registry.h"
#include "aot/tools/optimizer_flag.h"
#include "base/status_macros.h"

ABSL_FLAG(bool, list, false, "print the registered models and stop");
ABSL_FLAG(std::string, model, "", "name of the model; not needed if there is only one");
ABSL_FLAG(std::string, out, "", "file to write");
ABSL_FLAG(std::string, optimizer, "",
          "sgd, adam or adamw with settings, as 'adamw(lr=1e-3,weight_decay=0.01)'; "
          "instead of the model's own");
ABSL_FLAG(std::vector<std::string>, freeze, {},
          "patterns of parameters that are not trained, as 'backbone.*'; besides the model's own");
ABSL_FLAG(double, clip_norm, 0, "limit of the gradients' norm; 0 = as the model says");
ABSL_FLAG(bool, accumulate, false, "add methods that accumulate gradients over several batches");
ABSL_FLAG(bool, references, true, "store the results of the example inputs for cotan verify");
ABSL_FLAG(int64_t, seed, -1, "of initial parameters and random ops; -1 = as the model says");
ABSL_FLAG(std::string, dump_dir, "", "folder for the graph's text after each stage");

namespace cotan::aot {
namespace {

void List(const std::vector<ModelDefinition>& models) {
  for (const ModelDefinition& model : models) {
    std::printf("%-20s %s\n", model.name.c_str(), model.description.c_str());
  }
}

absl::StatusOr<const ModelDefinition*> FindModel(const std::vector<ModelDefinition>& models,
                                                 const std::string& name) {
  if (name.empty() && models.size() == 1) return &models[0];
  for (const ModelDefinition& model : models) {
    if (model.name == name) return &model;
  }
  return absl::NotFoundError(absl::StrCat(
      name.empty() ? "give --model=NAME" : absl::StrCat("there is no model '", name, "'"),
      "; there are ",
      absl::StrJoin(models, ", ", [](std::string* out, const ModelDefinition& model) {
        out->append(model.name);
      })));
}

absl::StatusOr<CompileOptions> OptionsFor(const ModelDefinition& model) {
  CompileOptions options = model.options();
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
  for (const std::string& pattern : absl::GetFlag(FLAGS_freeze)) options.frozen.push_back(pattern);
  if (absl::GetFlag(FLAGS_accumulate)) options.accumulate_gradients = true;
  if (!absl::GetFlag(FLAGS_references)) options.store_references = false;
  if (absl::GetFlag(FLAGS_seed) >= 0) options.seed = static_cast<uint64_t>(absl::GetFlag(FLAGS_seed));
  options.dump_dir = absl::GetFlag(FLAGS_dump_dir);
  return options;
}

void PrintSummary(const ModelDefinition& model, const CompiledModel& compiled,
                  const std::string& out) {
  std::printf("%s: %zu bytes, from model %s\n", out.c_str(), compiled.bytes().size(),
              model.name.c_str());
  for (const MethodSummary& method : compiled.methods()) {
    std::printf("  %-16s %5d traced ops -> %4d ops\n", method.name.c_str(), method.traced_ops,
                method.runtime_ops);
  }
}

absl::Status Run() {
  const std::vector<ModelDefinition> models = RegisteredModels();
  if (absl::GetFlag(FLAGS_list)) {
    List(models);
    return absl::OkStatus();
  }
  const std::string out = absl::GetFlag(FLAGS_out);
  if (out.empty()) return absl::InvalidArgumentError("give --out=FILE, or --list");
  COTAN_ASSIGN_OR_RETURN(const ModelDefinition* model,
                         FindModel(models, absl::GetFlag(FLAGS_model)));
  COTAN_ASSIGN_OR_RETURN(const CompileOptions options, OptionsFor(*model));
  COTAN_ASSIGN_OR_RETURN(const CompiledModel compiled,
                         CompileModuleFactory(model->factory, model->examples(), options));
  COTAN_RETURN_IF_ERROR(compiled.Save(out));
  PrintSummary(*model, compiled, out);
  return absl::OkStatus();
}

}  // namespace
}  // namespace cotan::aot

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Compiles a LibTorch model into a .cotan artifact.\n"
      "  compile --list\n"
      "  compile --model=NAME --out=FILE [--optimizer='adamw(lr=1e-3)'] [--dump_dir=DIR] ...");
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = cotan::aot::Run();
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return 1;
}
