// SPDX-License-Identifier: Apache-2.0

#include "aot/cache/compile_key.h"

#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "aot/cache/digest.h"
#include "aot/ir/text.h"

namespace cotan::aot {
namespace {

// Returns all digits of a double.
std::string Exact(double value) { return absl::StrFormat("%a", value); }

std::string Text(const SgdOptions& sgd) {
  return absl::StrJoin({Exact(sgd.lr), Exact(sgd.momentum), Exact(sgd.dampening), Exact(sgd.weight_decay),
                        absl::StrCat(sgd.nesterov), absl::StrCat(sgd.maximize)},
                       " ");
}

std::string Text(const AdamOptions& adam) {
  return absl::StrJoin(
      {Exact(adam.lr), Exact(adam.beta1), Exact(adam.beta2), Exact(adam.eps), Exact(adam.weight_decay),
       absl::StrCat(adam.amsgrad), absl::StrCat(adam.maximize), absl::StrCat(adam.decoupled_weight_decay)},
      " ");
}

std::string Text(const OptimizerOptions& options) {
  return absl::StrCat(OptimizerName(options), " ",
                      std::visit([](const auto& alternative) { return Text(alternative); }, options));
}

std::string Text(const std::optional<double>& value) { return value.has_value() ? Exact(*value) : "none"; }

void AddOptimizer(const OptimizerConfig& config, Digest& digest) {
  digest.Add("optimizer", Text(config.options));
  for (const ParameterGroup& group : config.groups) {
    for (const std::string& pattern : group.patterns) digest.Add("pattern", pattern);
    digest.Add("group", Text(group.options));
  }
  digest.Add("clip_norm", Text(config.clip_norm)).Add("clip_value", Text(config.clip_value));
  if (!config.loss_scaling.has_value()) return;
  const LossScaling& scaling = *config.loss_scaling;
  digest.Add("loss_scaling", absl::StrJoin({Exact(scaling.initial_scale), Exact(scaling.growth_factor),
                                            Exact(scaling.backoff_factor), Exact(scaling.growth_interval)},
                                           " "));
}

void AddData(absl::string_view label, const TensorData& data, Digest& digest) {
  digest.Add(label, absl::StrCat(static_cast<int>(data.dtype), " ", absl::StrJoin(data.sizes, ",")));
  digest.Add(label, data.bytes);
}

void AddState(const TracedState& state, Digest& digest) {
  digest.Add("state", state.name).Add("role", static_cast<int64_t>(state.role));
  digest.Add("flags", absl::StrCat(state.requires_grad, state.persistent));
  for (const std::string& alias : state.aliases) digest.Add("alias", alias);
  AddData("content", state.initial, digest);
}

void AddRun(const ReferenceRun& run, Digest& digest) {
  for (const auto& [label, list] : {std::pair<absl::string_view, const std::vector<TensorData>*>{"input", &run.inputs},
                                    {"output", &run.outputs},
                                    {"mutated", &run.mutated},
                                    {"tangent", &run.tangents},
                                    {"gradient", &run.gradients}}) {
    for (const TensorData& data : *list) AddData(label, data, digest);
  }
  digest.Add("rng_seed", run.rng_seed).Add("rng_offset", run.rng_offset);
}

void AddTrace(const TracedProgram& traced, Digest& digest) {
  digest.Add("graph", PrintGraph(traced.graph));
  digest.Add("metadata", traced.metadata.SerializeAsString());
  if (traced.program_metadata.has_value()) {
    digest.Add("program_metadata", traced.program_metadata->SerializeAsString());
  }
  if (traced.input_binding.has_value()) digest.Add("binding", traced.input_binding->SerializeAsString());
  digest.Add("signature", traced.signature.SerializeAsString());
  digest.Add("grad_enabled", traced.grad_enabled);
  digest.Add("no_grad_view_inputs", absl::StrJoin(traced.no_grad_view_inputs, ","));
  for (const std::vector<int>& sources : traced.result_dependencies) {
    digest.Add("result_dependencies", absl::StrJoin(sources, ","));
  }
  for (const TracedState& state : traced.states) AddState(state, digest);
  digest.Add("rng_blocks", traced.rng_blocks.ToString());
  AddRun(traced.reference, digest);
}

}  // namespace

std::string CompileKey(absl::Span<const KeyedTrace> traces, const KeyedOptions& options) {
  Digest digest;
  digest.Add("compiler", options.compiler).Add("producer", options.producer);
  digest.Add("seed", absl::StrCat(options.seed));
  digest.Add("flags", absl::StrCat(options.accumulate_gradients, options.store_references, options.outline_repeats));
  digest.Add("partitioner", static_cast<int64_t>(options.partitioner));
  digest.Add("activation_memory_budget", Exact(options.activation_memory_budget));
  for (const UsualSize& size : options.usual_sizes) {
    digest.Add("usual_size", absl::StrCat(size.traced, " ", size.usual));
  }
  if (!options.saved_tensor_hooks.empty()) digest.Add("saved_tensor_hooks", options.saved_tensor_hooks);
  if (options.optimizer.has_value()) AddOptimizer(*options.optimizer, digest);
  if (options.data_parallel.has_value()) {
    const DataParallelOptions& parallel = *options.data_parallel;
    digest.Add("data_parallel", absl::StrCat(parallel.bucket_bytes, " ", parallel.shard_optimizer, " ",
                                             parallel.sync_batch_norm, " ", parallel.ranks));
  }
  for (const FlatMeta& meta : options.input_wrappers) digest.Add("input_wrapper", ToProto(meta).SerializeAsString());
  for (const FlatMeta& meta : options.output_wrappers) digest.Add("output_wrapper", ToProto(meta).SerializeAsString());
  for (const KeyedTrace& trace : traces) {
    digest.Add("method", trace.name);
    AddTrace(*trace.traced, digest);
  }
  return digest.Hex();
}

}  // namespace cotan::aot
