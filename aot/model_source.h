// SPDX-License-Identifier: Apache-2.0

// ModelSource: a module, a .pt2 model or a function to compile, with the examples of its arguments.
// Private to //aot:compile_impl.
#ifndef COTAN_AOT_MODEL_SOURCE_H_
#define COTAN_AOT_MODEL_SOURCE_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "aot/aotautograd/tracer.h"
#include "aot/aotautograd/wrap_method.h"
#include "aot/compile_options.h"
#include "aot/dynamic/dynamic_shapes.h"
#include "aot/frontend/module.h"
#include "aot/frontend/pt2/model.h"
#include "base/layout.h"

namespace cotan::aot {

// A method to trace.
struct TraceRequest {
  TraceableModule* module = nullptr;  // null: a function without states
  bool in_train_mode = false;         // mode of the module
  TensorFunction function;
  std::vector<at::Tensor> inputs;
  TraceOptions options;  // options.name is the method's name
};

// A model with arguments of fixed sizes. Movable; the source outlives it.
struct SizedModel {
  std::vector<std::unique_ptr<TraceableModule>> modules;
  std::vector<TraceRequest> methods;  // in the order of compilation
};

// Traces a method of a SizedModel. Errors are those of Trace().
absl::StatusOr<TracedProgram> TraceMethod(const TraceRequest& request);

// Handling of the ends of the ranges of dynamic dimensions: kTraced also traces the model there and
// checks that it is the same program; kTrusted assumes it.
enum class RangeEnds : uint8_t { kTraced, kTrusted };

// A model and the examples of its arguments. Options, model and functions outlive it.
class ModelSource {
 public:
  virtual ~ModelSource() = default;

  const CompileOptions& options() const { return options_; }

  // Returns the sizes of the inputs, then of the targets; without symbols if all are fixed.
  // InvalidArgument: dynamic_dims do not match the examples.
  virtual absl::StatusOr<DynamicShapes> Shapes() const;
  virtual RangeEnds range_ends() const { return RangeEnds::kTraced; }
  // Returns whether the source itself declares maxima of sizes that depend on data.
  virtual bool has_data_sizes() const { return false; }

  // Returns the model with its examples at the sizes that the symbols of `shapes` have with
  // `values`; empty: at the examples' sizes. Errors of ResizeExamples() and of TraceableModule.
  virtual absl::StatusOr<SizedModel> AtSizes(const DynamicShapes& shapes, const DimVector& values) const = 0;

  // Returns the wrapper types of the arguments and results, which tracing completes; null: none.
  virtual const WrapperStructure* wrappers() const { return nullptr; }

 protected:
  // Example arguments at the sizes of one compilation.
  struct Arguments {
    std::vector<at::Tensor> inputs;
    std::vector<at::Tensor> targets;
  };

  ModelSource(const std::vector<at::Tensor>& examples, const CompileOptions& options)
      : examples_(examples), options_(options) {}

  const std::vector<at::Tensor>& examples() const { return examples_; }
  // Returns the examples, then the targets.
  std::vector<at::Tensor> AllExamples() const;
  absl::StatusOr<Arguments> ArgumentsAt(const DynamicShapes& shapes, const DimVector& values) const;

 private:
  const std::vector<at::Tensor>& examples_;
  const CompileOptions& options_;
};

// A module that a factory makes, once for each size.
class ModuleSource : public ModelSource {
 public:
  ModuleSource(const ModuleFactory& factory, const std::vector<at::Tensor>& examples, const CompileOptions& options)
      : ModelSource(examples, options), factory_(factory) {}

  absl::StatusOr<SizedModel> AtSizes(const DynamicShapes& shapes, const DimVector& values) const override;

 private:
  const ModuleFactory& factory_;
};

// A function, with the grad mode of the caller at entry.
class FunctionSource : public ModelSource {
 public:
  FunctionSource(const TensorFunction& function, const std::vector<at::Tensor>& examples, const CompileOptions& options,
                 const WrapperStructure* wrappers = nullptr)
      : ModelSource(examples, options), function_(function), wrappers_(wrappers) {}

  absl::StatusOr<SizedModel> AtSizes(const DynamicShapes& shapes, const DimVector& values) const override;
  const WrapperStructure* wrappers() const override { return wrappers_; }

 private:
  const TensorFunction& function_;
  const WrapperStructure* wrappers_;
};

// A .pt2 model and, unless null, the same module exported in eval mode.
class Pt2Source : public ModelSource {
 public:
  // InvalidArgument: `eval_model` has more inputs than `model`.
  static absl::StatusOr<Pt2Source> Create(const pt2::Model& model, const pt2::Model* eval_model,
                                          const std::vector<at::Tensor>& examples, const CompileOptions& options);

  // Returns the symbolic sizes of the inputs in the archive, solved for these examples. The archive
  // has no sizes of targets: a target with the batch size of the first input as dimension 0 gets
  // its symbol there.
  // InvalidArgument: the number or sizes of the examples do not match the archive, or dynamic_dims
  // declare a dimension that is fixed there.
  absl::StatusOr<DynamicShapes> Shapes() const override;
  RangeEnds range_ends() const override { return RangeEnds::kTrusted; }
  // Returns whether an archive has such a symbol with a maximum, of torch._check().
  bool has_data_sizes() const override;
  // InvalidArgument also: a state of the eval model is not a state of the model, or has another
  // dtype or other sizes there.
  absl::StatusOr<SizedModel> AtSizes(const DynamicShapes& shapes, const DimVector& values) const override;

 private:
  Pt2Source(const pt2::Model& model, const pt2::Model* eval_model, std::vector<at::Tensor> eval_examples,
            const std::vector<at::Tensor>& examples, const CompileOptions& options)
      : ModelSource(examples, options),
        model_(model),
        eval_model_(eval_model),
        eval_examples_(std::move(eval_examples)) {}

  // Returns which modules become blocks; unset: none.
  std::optional<pt2::RepeatLimits> Repeats() const;
  // Returns whether no option keeps all blocks from being shared.
  bool CanShareBlocks() const;
  absl::Status AddEval(const DynamicShapes& shapes, const DimVector& values, SizedModel& sized) const;

  const pt2::Model& model_;
  const pt2::Model* eval_model_;
  std::vector<at::Tensor> eval_examples_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_MODEL_SOURCE_H_
