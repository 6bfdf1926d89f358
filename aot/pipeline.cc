// SPDX-License-Identifier: Apache-2.0

#include "aot/pipeline.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "aot/artifact_cache.h"
#include "aot/blocks/block_table.h"
#include "aot/blocks/lower_calls.h"
#include "aot/capture/data_sizes.h"
#include "aot/capture/traced_program.h"
#include "aot/dynamic/learn_sizes.h"
#include "aot/dynamic/sample_points.h"
#include "aot/dynamic/trace_comparison.h"
#include "aot/dynamic/unify.h"
#include "aot/ir/size_estimate.h"
#include "aot/memory_stages.h"
#include "aot/method_stages.h"
#include "aot/orders.h"
#include "base/status_macros.h"
#include "serialization/container/container.h"

namespace cotan::aot {
namespace {

// Number of attempts to find points at which no sizes of the model coincide by chance.
constexpr int kAttempts = 3;

// --- fixed sizes ---------------------------------------------------------------------

// Returns why no block can be shared with these options; empty: it can.
std::string RefusalOfBlocks(const CompileOptions& options) {
  if (options.saved_tensor_hooks.on_host) return "CompileOptions.saved_tensor_hooks move the values that it saves";
  if (options.data_parallel.has_value() && options.data_parallel->sync_batch_norm) {
    return "batch norm is computed with other ranks (CompileOptions.data_parallel.sync_batch_norm)";
  }
  if (CurrentDataSizes() != nullptr) return "sizes of the model depend on data (docs/dynamic_shapes.md)";
  if (options.order > 1) return "its backward is differentiated (CompileOptions.order is above 1)";
  return "";
}

// Traces all methods of all orders and passes each trace on. Calls of blocks become ops, and the blocks are added to
// `blocks`, if the options allow that.
absl::Status TraceMethods(const SizedModel& model, const CompileOptions& options, BlockTable& blocks,
                          absl::FunctionRef<absl::Status(OrderedTrace& trace)> use) {
  blocks.RefuseAll(RefusalOfBlocks(options));
  const BlockScope scope(&blocks);
  for (const TraceRequest& request : model.methods) {
    blocks.StartMethod();
    COTAN_RETURN_IF_ERROR(TraceOrders(request, options.order, use));
  }
  return absl::OkStatus();
}

// Returns the options of the traces of blocks.
TraceOptions BlockTraceOptions(const CompileOptions& options) {
  TraceOptions trace;
  trace.seed = options.module.seed;
  trace.attention = AttentionRuleOf(options);
  trace.decompositions = &options.tracing.decompositions;
  trace.unsupported_ops = UnsupportedLiveOps;
  return trace;
}

// Returns the traces with the names of their methods.
std::vector<KeyedTrace> Named(const std::vector<OrderedTrace>& traces, const BlockTable& blocks) {
  std::vector<KeyedTrace> named;
  for (const OrderedTrace& trace : traces) named.push_back({trace.name, &trace.traced});
  for (int i = 0; i < blocks.num_blocks(); ++i) {
    named.push_back({blocks.block(i).traced.graph.name, &blocks.block(i).traced});
  }
  return named;
}

// Adds the graphs of the blocks.
void AddBlockGraphs(const BlockTable& blocks, std::vector<Graph>& graphs) {
  for (int i = 0; i < blocks.num_blocks(); ++i) graphs.push_back(blocks.block(i).traced.graph);
}

// Returns how the target of a compilation stores tensors.
LayoutPreferences LayoutPreferencesOf(const CompileOptions& options) {
  return {.half_kernels_channels_last = options.target == CompileTarget::kCuda};
}

// Takes a trace through the stages, to the artifact.
absl::Status CompileMethod(OrderedTrace& trace, Compilation& compilation) {
  StageClock clock(trace.name, compilation.times);
  COTAN_ASSIGN_OR_RETURN(TracedMethod method, LowerMethod(trace.name, std::move(trace.traced), compilation));
  method.drafts[0].differentiable_backward = trace.differentiable_backward;
  clock.Record("lower");
  COTAN_RETURN_IF_ERROR(AddUpdates(method, compilation));
  clock.Record("optimizer");
  COTAN_RETURN_IF_ERROR(PartitionForward(method, compilation));
  COTAN_RETURN_IF_ERROR(CutMethodAtSizes(method, compilation));
  clock.Record("partition");
  COTAN_RETURN_IF_ERROR(OptimizeMethod(method, LayoutPreferencesOf(compilation.options)));
  clock.Record("optimize");
  COTAN_RETURN_IF_ERROR(EmitMethod(method, compilation));
  clock.Record("emit");
  RecordReferences(method, compilation);
  clock.Record("record");
  return absl::OkStatus();
}

// Writes the artifact's part of the dump, if there is one.
absl::Status Dump(const std::string& bytes, const Compilation& compilation) {
  const std::string& folder = compilation.options.debug.dump_dir;
  if (folder.empty()) return absl::OkStatus();
  COTAN_ASSIGN_OR_RETURN(const ArtifactFile file, ArtifactFile::Parse(bytes));
  return DumpArtifact(folder, file.artifact(), compilation.times);
}

// --- reference runs ------------------------------------------------------------------

// Reference runs by method.
using References = std::map<std::string, ReferenceRun>;

// Replaces the reference run of a trace, if there is one for its method.
void UseReference(const References& references, OrderedTrace& trace) {
  const auto found = references.find(trace.name);
  if (found != references.end()) trace.traced.reference = found->second;
}

// Compiles a model at fixed sizes, with the reference runs `references` in place of those of its traces. Adds the
// graphs of the traces to `graphs`, unless it is null.
absl::StatusOr<CompiledModel> CompileSized(const SizedModel& model, const CompileOptions& options,
                                           const WrapperStructure* wrappers, const References& references,
                                           std::vector<Graph>* graphs) {
  // The key of the cache needs all traces. Without a cache, only one trace is in memory at a time.
  COTAN_ASSIGN_OR_RETURN(ArtifactCache cache, ArtifactCache::Open(options));
  BlockTable blocks(BlockTraceOptions(options), options.debug.store_references);
  std::vector<OrderedTrace> traces;
  if (cache.in_use()) {
    COTAN_RETURN_IF_ERROR(TraceMethods(model, options, blocks, [&](OrderedTrace& trace) {
      UseReference(references, trace);
      traces.push_back(std::move(trace));
      return absl::OkStatus();
    }));
    COTAN_ASSIGN_OR_RETURN(std::optional<CompiledModel> found, cache.Find(Named(traces, blocks), options, wrappers));
    if (found.has_value()) {
      for (OrderedTrace& trace : traces) {
        if (graphs != nullptr) graphs->push_back(std::move(trace.traced.graph));
      }
      if (graphs != nullptr) AddBlockGraphs(blocks, *graphs);
      return *std::move(found);
    }
  }
  Compilation compilation{options, wrappers, ArtifactBuilder(options.module.seed)};
  BlockLowerer lowerer(
      blocks, PartitionOptionsOf(options), LayoutPreferencesOf(options),
      [&compilation](serialization::Method block) { return compilation.artifact.AddBlock(std::move(block)); },
      [&compilation](Partitioned& block) { return PackBlockValues(compilation, block); });
  compilation.blocks = &lowerer;
  absl::Time traced_from = absl::Now();
  const auto compile = [&](OrderedTrace& trace) {
    UseReference(references, trace);
    if (graphs != nullptr) graphs->push_back(trace.traced.graph);
    if (!cache.in_use()) compilation.times.push_back({trace.name, "trace", absl::Now() - traced_from});
    const absl::Status status = CompileMethod(trace, compilation);
    traced_from = absl::Now();
    return status;
  };
  if (cache.in_use()) {
    for (OrderedTrace& trace : traces) COTAN_RETURN_IF_ERROR(compile(trace));
  } else {
    COTAN_RETURN_IF_ERROR(TraceMethods(model, options, blocks, compile));
  }
  if (graphs != nullptr) AddBlockGraphs(blocks, *graphs);
  if (options.outline_repeats) compilation.artifact.OutlineRepeats();
  COTAN_ASSIGN_OR_RETURN(std::string bytes, std::move(compilation.artifact).Build(Producer()));
  COTAN_RETURN_IF_ERROR(Dump(bytes, compilation));
  if (cache.in_use()) cache.Store(bytes, compilation.summaries);
  return CompiledModel(std::move(bytes), std::move(compilation.summaries), cache.outcome(), blocks.refusals());
}

// --- dynamic sizes -------------------------------------------------------------------

// The sizes of a model that depend on data.
struct DataSizes {
  const DataDependentSizes& declared;
  std::vector<DataSize> found = {};  // the last symbols of its DynamicShapes
  References references = {};        // of the examples, which have other counts than the traces

  // Returns the counts at a trace point.
  DataSizeTable At(const DimVector& point) const {
    const auto first = point.end() - static_cast<std::ptrdiff_t>(found.size());
    return DataSizeTable(declared, found, DimVector(first, point.end()));
  }
};

// Makes traces have the sizes of a point.
class PointScope {
 public:
  PointScope(const DynamicShapes& shapes, const DimVector& point, const DataSizes& data)
      : usual_(UsualSizesAt(shapes, point)), table_(data.At(point)), data_(data.found.empty() ? nullptr : &table_) {}

  // Returns the error of the traces' sizes.
  const absl::Status& status() const { return table_.status(); }

 private:
  // Returns the examples' sizes, which cost models assume instead of those of the point.
  static std::vector<UsualSize> UsualSizesAt(const DynamicShapes& shapes, const DimVector& point) {
    std::vector<UsualSize> usual;
    for (size_t i = 0; i < point.size(); ++i) {
      if (point[i] > 1) usual.push_back({point[i], std::max<int64_t>(shapes.symbols[i].example, 1)});
    }
    return usual;
  }

  const UsualSizesScope usual_;
  DataSizeTable table_;
  const DataSizeScope data_;
};

// Traces the model with its examples, finds the sizes that depend on data, and adds a symbol for each to `shapes`.
absl::StatusOr<DataSizes> FindDataSizes(const ModelSource& source, DynamicShapes& shapes) {
  const CompileOptions& options = source.options();
  DataSizes data{options.tracing.data_dependent_sizes};
  if (!data.declared.is_set() && !source.has_data_sizes()) return data;
  DataSizeTable table(data.declared);
  const DataSizeScope scope(&table);
  COTAN_ASSIGN_OR_RETURN(const SizedModel model, source.AtSizes(shapes, {}));
  BlockTable blocks(BlockTraceOptions(options), /*computes_values=*/false);
  COTAN_RETURN_IF_ERROR(TraceMethods(model, options, blocks, [&](OrderedTrace& trace) {
    data.references[trace.name] = std::move(trace.traced.reference);
    return absl::OkStatus();
  }));
  COTAN_RETURN_IF_ERROR(table.status());
  data.found = table.sizes();
  if (data.found.empty()) data.references.clear();
  for (const DataSize& size : data.found) {
    shapes.symbols.push_back(
        {.name = size.name, .min = size.range.min, .max = size.range.max, .example = size.example, .from_data = true});
  }
  return data;
}

// Returns Unimplemented if a size depends on data and an option does not allow that.
absl::Status CheckDataSizes(const DataSizes& data, const CompileOptions& options) {
  if (data.found.empty()) return absl::OkStatus();
  const auto refuse = [&data](absl::string_view option, absl::string_view why) {
    return absl::UnimplementedError(
        absl::StrCat(option, " is set, and the size of '", data.found[0].name, "' depends on data: ", why));
  };
  if (options.order > 1) return refuse("order", "backwards of such methods are not differentiated; leave it at 1");
  if (options.data_parallel.has_value()) {
    return refuse("data_parallel", "a rank whose count is refused would leave the others waiting; leave it unset");
  }
  if (options.max_memory.has_value()) {
    return refuse("max_memory", "the values that its methods pass on are not limited; leave it unset");
  }
  return absl::OkStatus();
}

// Adds the sizes of a point to the message of an error.
absl::Status AtPoint(const absl::Status& status, const DynamicShapes& shapes, const DimVector& point) {
  return absl::Status(status.code(), absl::StrCat("with ", shapes.ToString(point),
                                                  ", which the declared ranges allow: ", status.message()));
}

// Compiles the model at a point. Reference runs and dumps are those of the first.
absl::StatusOr<CompiledModel> CompileAt(const ModelSource& source, CompileOptions options, const DynamicShapes& shapes,
                                        const DimVector& point, const DataSizes& data, bool is_first,
                                        std::vector<Graph>& graphs) {
  const PointScope scope(shapes, point, data);
  options.debug.store_references = options.debug.store_references && is_first;
  if (!is_first) options.debug.dump_dir.clear();
  options.outline_repeats = false;  // artifacts are unified method by method
  COTAN_ASSIGN_OR_RETURN(const SizedModel model, source.AtSizes(shapes, point));
  absl::StatusOr<CompiledModel> compiled = CompileSized(model, options, source.wrappers(), data.references, &graphs);
  COTAN_RETURN_IF_ERROR(scope.status());
  return compiled;
}

// Returns the traced graphs of the methods, then of the blocks, at a point.
absl::StatusOr<std::vector<Graph>> TraceAt(const ModelSource& source, const DynamicShapes& shapes,
                                           const DimVector& point, const DataSizes& data) {
  const PointScope scope(shapes, point, data);
  COTAN_ASSIGN_OR_RETURN(const SizedModel model, source.AtSizes(shapes, point));
  BlockTable blocks(BlockTraceOptions(source.options()), /*computes_values=*/false);
  std::vector<Graph> graphs;
  COTAN_RETURN_IF_ERROR(TraceMethods(model, source.options(), blocks, [&](OrderedTrace& trace) {
    graphs.push_back(std::move(trace.traced.graph));
    return absl::OkStatus();
  }));
  COTAN_RETURN_IF_ERROR(scope.status());
  AddBlockGraphs(blocks, graphs);
  return graphs;
}

// Adds the graphs of one point.
// InvalidArgument: there are more or fewer than at other points.
absl::Status AddGraphs(std::vector<Graph> graphs, std::vector<MethodTraces>& methods) {
  if (!methods.empty() && methods.size() != graphs.size()) {
    return absl::InvalidArgumentError("the model calls other blocks at other sizes");
  }
  methods.resize(graphs.size());
  for (size_t m = 0; m < graphs.size(); ++m) {
    methods[m].name = graphs[m].name;
    methods[m].graphs.push_back(std::move(graphs[m]));
  }
  return absl::OkStatus();
}

// Compares inputs and outputs of the programs with those traced at a point with a size of 1 or 0.
absl::Status CheckSmallSize(const ModelSource& source, const DynamicShapes& shapes, const DimVector& point,
                            const DataSizes& data, absl::Span<const MethodTraces> methods) {
  absl::StatusOr<std::vector<Graph>> graphs = TraceAt(source, shapes, point, data);
  if (!graphs.ok()) return AtPoint(graphs.status(), shapes, point);
  // There may be other blocks.
  const auto count = static_cast<size_t>(std::count_if(
      methods.begin(), methods.end(), [](const MethodTraces& m) { return !absl::StartsWith(m.name, "block."); }));
  graphs->resize(count);
  return CheckOutputsAtSmallSize(shapes, point, methods.subspan(0, count), *graphs);
}

// Does that with a size of 1 for each symbol whose range has it, and with a size of 0 for all sizes that depend on data
// at once, because counts of counted rows are 0 as well.
absl::Status CheckSmallSizes(const ModelSource& source, const DynamicShapes& shapes, const DimVector& first,
                             const DataSizes& data, absl::Span<const MethodTraces> methods) {
  DimVector none_found = first;
  for (size_t i = 0; i < first.size(); ++i) {
    if (shapes.symbols[i].min == 0) none_found[i] = 0;
    if (shapes.symbols[i].min > 1) continue;
    DimVector point = first;
    point[i] = 1;
    COTAN_RETURN_IF_ERROR(CheckSmallSize(source, shapes, point, data, methods));
  }
  return none_found == first ? absl::OkStatus() : CheckSmallSize(source, shapes, none_found, data, methods);
}

// Compiles at `points` and unifies the artifacts. Adds sizes that the traces have in common to
// `fixed`.
absl::StatusOr<CompiledModel> CompileAtPoints(const ModelSource& source, const CompileOptions& options,
                                              const DynamicShapes& shapes, const std::vector<DimVector>& points,
                                              const DataSizes& data, absl::btree_set<int64_t>& fixed) {
  std::vector<std::string> files;
  std::vector<MethodSummary> summaries;
  std::vector<std::string> inlined_blocks;
  CacheOutcome outcome;
  std::vector<MethodTraces> methods;
  for (const DimVector& point : points) {
    std::vector<Graph> graphs;
    absl::StatusOr<CompiledModel> model = CompileAt(source, options, shapes, point, data, files.empty(), graphs);
    if (!model.ok()) return AtPoint(model.status(), shapes, point);
    if (files.empty()) summaries = model->methods(), inlined_blocks = model->inlined_blocks();
    if (files.empty() || outcome.kind == CacheOutcome::Kind::kHit) outcome = model->cache();
    files.push_back(model->bytes());
    COTAN_RETURN_IF_ERROR(AddGraphs(std::move(graphs), methods));
  }
  const bool ends_are_traced = source.range_ends() == RangeEnds::kTraced;
  std::vector<DimVector> all_points = points;
  for (const DimVector& end : ends_are_traced ? ChooseEndPoints(shapes) : std::vector<DimVector>()) {
    absl::StatusOr<std::vector<Graph>> graphs = TraceAt(source, shapes, end, data);
    if (!graphs.ok()) return AtPoint(graphs.status(), shapes, end);
    COTAN_RETURN_IF_ERROR(AddGraphs(*std::move(graphs), methods));
    all_points.push_back(end);
  }
  AddFixedSizes(methods, fixed);
  COTAN_ASSIGN_OR_RETURN(const LearnedSizes learned,
                         InferSymbolicSizes(shapes, all_points, static_cast<int>(points.size()), methods));
  if (ends_are_traced) COTAN_RETURN_IF_ERROR(CheckSmallSizes(source, shapes, points[0], data, methods));
  COTAN_ASSIGN_OR_RETURN(std::string unified, UnifyArtifacts(shapes, points, learned, std::move(files)));
  return CompiledModel(std::move(unified), std::move(summaries), std::move(outcome), std::move(inlined_blocks));
}

// Compiles at several sizes, at other ones if a size of the model coincides with them by chance.
absl::StatusOr<CompiledModel> CompileDynamic(const ModelSource& source, const CompileOptions& options,
                                             const DynamicShapes& shapes, const DataSizes& data) {
  absl::Status error;
  absl::btree_set<int64_t> fixed;
  for (int attempt = 0; attempt < kAttempts; ++attempt) {
    COTAN_ASSIGN_OR_RETURN(const std::vector<DimVector> points,
                           ChooseSamplePoints(WithWideDataSizes(shapes, attempt), attempt, fixed));
    absl::StatusOr<CompiledModel> model = CompileAtPoints(source, options, shapes, points, data, fixed);
    if (model.ok() || model.status().code() == absl::StatusCode::kUnimplemented) return model;
    if (error.ok()) error = model.status();
  }
  return error;
}

// --- one model -----------------------------------------------------------------------

// Compiles the model, and fits it into options.max_memory. `options` are those of the source, or differ in the budget
// and the folder of dumps.
absl::StatusOr<CompiledModel> CompileOnce(const ModelSource& source, const CompileOptions& options,
                                          const DynamicShapes& shapes, const DataSizes& data) {
  absl::StatusOr<CompiledModel> compiled = absl::UnknownError("");
  const bool repeats_cheap_ops = RepeatsCheapOps(options);
  if (shapes.symbols.empty()) {
    COTAN_ASSIGN_OR_RETURN(const SizedModel model, source.AtSizes(shapes, {}));
    CompileOptions sized = options;
    sized.outline_repeats = options.outline_repeats && !repeats_cheap_ops;
    compiled = CompileSized(model, sized, source.wrappers(), /*references=*/{}, /*graphs=*/nullptr);
  } else {
    compiled = CompileDynamic(source, options, shapes, data);
  }
  // After the cache, which stores artifacts without a limit.
  if (compiled.ok() && options.max_memory.has_value()) compiled = FitModelIntoMemory(*compiled, options);
  if (compiled.ok() && repeats_cheap_ops) compiled = WithCheapOpsRepeated(*std::move(compiled), options);
  // At fixed sizes without a limit, the repeats have been outlined.
  const bool is_rewritten = !shapes.symbols.empty() || options.max_memory.has_value() || repeats_cheap_ops;
  if (!compiled.ok() || !options.outline_repeats || !is_rewritten) return compiled;
  return OutlineRepeats(*std::move(compiled), options);
}

}  // namespace

absl::StatusOr<CompiledModel> Compile(const ModelSource& source) {
  const CompileOptions& options = source.options();
  COTAN_RETURN_IF_ERROR(CheckOptions(options));
  COTAN_ASSIGN_OR_RETURN(DynamicShapes shapes, source.Shapes());
  COTAN_ASSIGN_OR_RETURN(const DataSizes data, FindDataSizes(source, shapes));
  COTAN_RETURN_IF_ERROR(CheckDataSizes(data, options));
  return CompileWithinBudget(options,
                             [&](const CompileOptions& within) { return CompileOnce(source, within, shapes, data); });
}

}  // namespace cotan::aot
