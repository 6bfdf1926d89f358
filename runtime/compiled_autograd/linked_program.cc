// SPDX-License-Identifier: Apache-2.0

#include "runtime/compiled_autograd/linked_program.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "linking/link_passes.h"
#include "runtime/autograd/backward_run.h"
#include "serialization/container/container.h"
#include "serialization/schema/tensor_type.h"
#include "serialization/text/text.h"

namespace cotan {
namespace {

using autograd::CapturedValue;
using autograd::InputUse;
using Value = LinkBuilder::Value;

// Emits the nodes of a segment.
class Linker final : public autograd::CaptureEmitter {
 public:
  Linker(const Segment& segment, const SizePattern& pattern, absl::string_view name)
      : segment_(segment),
        pattern_(pattern),
        link_(name, pattern.symbols),
        method_inputs_(segment.record.inputs().size(), -1),
        results_(static_cast<size_t>(segment.num_results)),
        arrivals_(segment.arrivals.size()),
        outputs_(segment.record.outputs().size()) {}

  absl::Status Emit() {
    for (size_t i = 0; i < segment_.nodes.size(); ++i) {
      node_ = &segment_.nodes[i];
      if (!node_->runs) continue;
      const autograd::Node& node = *node_->visit->node;
      link_.SetSource(absl::StrCat(i, ".", node.name()));
      COTAN_RETURN_IF_ERROR(autograd::InBackwardOf(node, EmitNode(*node_->visit->node)));
    }
    for (size_t i = 0; i < outputs_.size(); ++i) {
      if (!outputs_[i].has_value()) return absl::InternalError(absl::StrCat("output ", i, " has no value"));
      link_.Output(*outputs_[i], absl::StrCat("grad.", i));
    }
    link_.SetSource("");
    for (const SegmentOutput& output : segment_.outputs) {
      COTAN_ASSIGN_OR_RETURN(const CapturedValue value, Arrived(output.arrival));
      link_.Output(*value, absl::StrCat("gradient.", output.arrival));
    }
    return absl::OkStatus();
  }

  LinkBuilder& link() override { return link_; }
  const SymInt& Size(int index) const override {
    return pattern_.sizes[static_cast<size_t>(node_->first_size + index)];
  }
  Value Input(int index, serialization::TensorType type, absl::string_view name) override {
    return DeclareInput(node_->first_input + index, std::move(type), name);
  }
  void Update(int index, Value value) override {
    link_.Update(method_inputs_[static_cast<size_t>(node_->first_input + index)], value);
  }
  void Output(int index, Value value) override { outputs_[static_cast<size_t>(node_->first_output + index)] = value; }

  const std::vector<int>& method_inputs() const { return method_inputs_; }

 private:
  Value DeclareInput(int record_input, serialization::TensorType type, absl::string_view name) {
    method_inputs_[static_cast<size_t>(record_input)] = link_.num_inputs();
    return link_.Input(std::move(type), absl::StrCat(record_input, ".", name));
  }

  // Returns the sum of the gradients that arrive; unset if there is none.
  absl::StatusOr<CapturedValue> Arrived(int index) {
    const Arrival& arrival = segment_.arrivals[static_cast<size_t>(index)];
    CapturedValue& sum = arrivals_[static_cast<size_t>(index)];
    if (sum.has_value() || !arrival.defined()) return sum;
    const auto begin = pattern_.sizes.begin() + arrival.first_size;
    const SymIntVector sizes(begin, begin + arrival.rank);
    if (arrival.record_input >= 0) {
      sum = DeclareInput(arrival.record_input, RowMajorType(arrival.dtype, sizes), "gradient");
    }
    for (const int result : arrival.results) {
      const CapturedValue& value = results_[static_cast<size_t>(result)];
      if (!value.has_value()) return absl::InternalError(absl::StrCat("result ", result, " has no value"));
      COTAN_ASSIGN_OR_RETURN(const Value term, link_.Conform(*value, arrival.dtype, sizes));
      if (!sum.has_value()) {
        sum = term;
        continue;
      }
      COTAN_ASSIGN_OR_RETURN(sum, link_.Add(*sum, term));
    }
    return sum;
  }

  absl::Status EmitNode(autograd::Node& node) {
    std::vector<CapturedValue> incoming;
    for (int i = 0; i < node.num_inputs(); ++i) {
      COTAN_ASSIGN_OR_RETURN(CapturedValue value, Arrived(node_->first_arrival + i));
      incoming.push_back(value);
    }
    std::vector<CapturedValue> results(static_cast<size_t>(node_->num_edges));
    COTAN_RETURN_IF_ERROR(node.Emit(*this, incoming, absl::MakeSpan(results)));
    for (size_t i = 0; i < results.size(); ++i) {
      const int number = segment_.results[static_cast<size_t>(node_->first_edge) + i];
      if (number >= 0) results_[static_cast<size_t>(number)] = results[i];
    }
    return absl::OkStatus();
  }

  const Segment& segment_;
  const SizePattern& pattern_;
  LinkBuilder link_;
  const DescribedNode* node_ = nullptr;  // that emits
  std::vector<int> method_inputs_;       // by input of the record
  std::vector<CapturedValue> results_;
  std::vector<CapturedValue> arrivals_;
  std::vector<CapturedValue> outputs_;  // of the record
};

absl::StatusOr<std::shared_ptr<const Program>> ToProgram(serialization::Method method, int num_symbols) {
  serialization::Artifact artifact;
  artifact.set_producer("compiled autograd");
  for (int i = 0; i < num_symbols; ++i) {
    serialization::SymbolProto& symbol = *artifact.add_symbols();
    symbol.set_name(absl::StrCat("size.", i));
    symbol.set_min(1);
    symbol.set_max(kMaxElements);
  }
  *artifact.add_methods() = std::move(method);
  COTAN_ASSIGN_OR_RETURN(std::string bytes, ArtifactWriter().Serialize(std::move(artifact)));
  return Program::LoadBytes(std::move(bytes), "captured backward");
}

}  // namespace

SizePattern SizePattern::Of(absl::Span<const std::vector<int64_t>> seen) {
  SizePattern pattern;
  std::map<std::vector<int64_t>, int> symbol_of;  // by the number's values in all records
  for (size_t i = 0; i < seen[0].size(); ++i) {
    std::vector<int64_t> values;
    for (const std::vector<int64_t>& record : seen) values.push_back(record[i]);
    if (std::all_of(values.begin(), values.end(), [&](int64_t value) { return value == values[0]; })) {
      pattern.sizes.emplace_back(values[0]);
      continue;
    }
    const auto [entry, is_new] = symbol_of.try_emplace(values, static_cast<int>(pattern.symbols.size()));
    if (is_new) pattern.symbols.push_back(values.back());
    pattern.sizes.push_back(SymInt::Symbol(entry->second));
  }
  return pattern;
}

bool SizePattern::Match(absl::Span<const int64_t> numbers, std::vector<int64_t>& values) const {
  values.assign(symbols.size(), -1);
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (sizes[i].is_constant()) {
      if (sizes[i].constant() != numbers[i]) return false;
      continue;
    }
    int64_t& value = values[static_cast<size_t>(sizes[i].symbol())];
    if (value >= 0 && value != numbers[i]) return false;
    value = numbers[i];
  }
  return true;
}

absl::Status LinkedArena::Begin(Device& device, Executable& executable) {
  const auto bytes = static_cast<size_t>(executable.plan().arena_bytes);
  if (memory_ == nullptr || &memory_->device() != &device || memory_->bytes() < bytes) {
    memory_ = nullptr;  // freed first: the device may not hold both
    ++generation_;
    COTAN_ASSIGN_OR_RETURN(memory_, Storage::Allocate(device, bytes));
  }
  executable.Bind({.arena = memory_->data(), .states = {}}, generation_);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<LinkedProgram>> LinkedProgram::Link(const Segment& segment, SizePattern pattern,
                                                                   absl::string_view name) {
  auto made = std::unique_ptr<LinkedProgram>(new LinkedProgram(std::move(pattern)));
  Linker linker(segment, made->pattern_, name);
  COTAN_RETURN_IF_ERROR(linker.Emit());
  LinkBuilder& link = linker.link();
  RemoveDeadOps(link.method());
  AccumulateAsSoonAsPossible(link.method());
  COTAN_ASSIGN_OR_RETURN(made->program_,
                         ToProgram(std::move(link.method()), static_cast<int>(made->pattern_.symbols.size())));
  made->kept_ = segment.record.kept();
  made->guards_ = link.guards();
  made->index_inputs_ = link.index_inputs();
  made->method_inputs_ = linker.method_inputs();
  return made;
}

LinkedProgram::Plan* LinkedProgram::FindPlan(absl::Span<const int64_t> numbers) {
  for (const std::unique_ptr<Plan>& plan : plans_) {
    if (absl::MakeConstSpan(plan->numbers) == numbers) return plan.get();
  }
  return nullptr;
}

absl::StatusOr<LinkedProgram::Plan*> LinkedProgram::MakePlan(const Segment& segment, const ExecutionTarget& target,
                                                             int max_plans) {
  auto plan = std::make_unique<Plan>();
  plan->numbers = segment.record.sizes();
  std::vector<int64_t> symbols;
  if (!pattern_.Match(plan->numbers, symbols)) return absl::InvalidArgumentError("other sizes");
  COTAN_RETURN_IF_ERROR(CheckGuards(guards_, symbols));
  ScheduleOptions options;
  for (size_t i = 0; i < method_inputs_.size(); ++i) {
    const bool dies = segment.record.inputs()[i].use == InputUse::kDonated;
    if (dies && method_inputs_[i] >= 0) options.donated.push_back(method_inputs_[i]);
  }
  COTAN_ASSIGN_OR_RETURN(plan->executable, Executable::Make(*program_, 0, symbols, target, options));
  for (const IndexInput& index : index_inputs_) {
    COTAN_ASSIGN_OR_RETURN(const std::vector<int64_t> elements, index.elements(symbols));
    COTAN_ASSIGN_OR_RETURN(const Tensor host, Tensor::From<int64_t>(elements, {static_cast<int64_t>(elements.size())}));
    COTAN_ASSIGN_OR_RETURN(Tensor tensor, host.ToDevice(*target.device));
    plan->indices.push_back(std::move(tensor));
  }
  if (static_cast<int>(plans_.size()) == max_plans) plans_.erase(plans_.begin());
  plans_.push_back(std::move(plan));
  return plans_.back().get();
}

absl::Status LinkedProgram::Run(Plan& plan, LinkedArena& arena, const Segment& segment, Device& device,
                                std::vector<Tensor>& outputs) const {
  Executable& executable = *plan.executable;
  COTAN_RETURN_IF_ERROR(arena.Begin(device, executable));
  for (size_t i = 0; i < method_inputs_.size(); ++i) {
    if (method_inputs_[i] < 0) continue;
    COTAN_RETURN_IF_ERROR(executable.SetInput(method_inputs_[i], segment.record.inputs()[i].tensor));
  }
  for (size_t i = 0; i < index_inputs_.size(); ++i) {
    COTAN_RETURN_IF_ERROR(executable.SetInput(index_inputs_[i].input, plan.indices[i]));
  }
  outputs.clear();
  int next = 0;
  for (const autograd::CaptureRecord::Output& output : segment.record.outputs()) {
    COTAN_ASSIGN_OR_RETURN(Tensor tensor, Tensor::EmptyStrided(output.dtype, output.layout, device));
    COTAN_RETURN_IF_ERROR(executable.SetStridedOutput(next++, tensor));
    outputs.push_back(std::move(tensor));
  }
  for (size_t i = 0; i < segment.outputs.size(); ++i) {
    COTAN_RETURN_IF_ERROR(executable.SetOutput(next++, outputs.emplace_back()));
  }
  return executable.Run();
}

std::string LinkedProgram::ToString() const { return MethodText(program_->artifact(), program_->method(0)); }

}  // namespace cotan
