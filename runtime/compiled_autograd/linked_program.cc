// SPDX-License-Identifier: Apache-2.0

#include "runtime/compiled_autograd/linked_program.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "linking/index_input.h"
#include "linking/link_builder.h"
#include "linking/link_passes.h"
#include "linking/linked_artifact.h"
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
      link_.SetSource(absl::StrCat(i, ".", node.QualifiedName()));
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

// Describes the method for LinkedProgram::Load().
void AddDescription(const Linker& linker, absl::Span<const uint64_t> key, const SizePattern& pattern,
                    serialization::LinkedBackward& linked) {
  for (const uint64_t word : key) linked.add_key(word);
  for (const SymInt& size : pattern.sizes) linked.add_sizes(size.ToString());
  linked.set_num_symbols(static_cast<uint32_t>(pattern.symbols.size()));
  for (const int input : linker.method_inputs()) linked.add_inputs(static_cast<uint32_t>(input + 1));
}

absl::StatusOr<std::shared_ptr<const Program>> ToProgram(serialization::Method method) {
  COTAN_ASSIGN_OR_RETURN(std::string bytes, ArtifactWriter().Serialize(LinkedArtifact({&method, 1})));
  return Program::LoadBytes(std::move(bytes), "captured backward");
}

// Returns the program of what the linker emitted.
absl::StatusOr<std::unique_ptr<LinkedProgram>> Finish(Linker& linker, absl::Span<const uint64_t> key,
                                                      const SizePattern& pattern) {
  serialization::Method& method = linker.link().method();
  RemoveDeadOps(method);
  AccumulateAsSoonAsPossible(method);
  AddDescription(linker, key, pattern, *method.mutable_linked());
  COTAN_ASSIGN_OR_RETURN(std::shared_ptr<const Program> program, ToProgram(std::move(method)));
  return LinkedProgram::Load(std::move(program), 0);
}

// InvalidArgument: a tensor that the linked method reads or returns has another type than the segment's.
absl::Status CheckType(absl::string_view what, int index, const TensorSpec& planned, DType dtype,
                       absl::Span<const int64_t> sizes) {
  if (planned.dtype == dtype && absl::MakeConstSpan(planned.layout.sizes) == sizes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("the linked method has another type of ", what, " ", index));
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

SizePattern SizePattern::OfSymbols(absl::Span<const int64_t> numbers) {
  SizePattern pattern;
  for (const int64_t number : numbers) {
    if (number <= 1) {
      pattern.sizes.emplace_back(number);
      continue;
    }
    pattern.sizes.push_back(SymInt::Symbol(static_cast<int>(pattern.symbols.size())));
    pattern.symbols.push_back(number);
  }
  return pattern;
}

absl::StatusOr<bool> SizePattern::Unify(const serialization::LinkedBackward& linked) {
  SymIntVector fixed;  // by symbol
  for (size_t i = 0; i < symbols.size(); ++i) fixed.push_back(SymInt::Symbol(static_cast<int>(i)));
  const auto resolve = [&](SymInt size) {
    while (size.kind() == SymInt::Kind::kSymbol && !(fixed[static_cast<size_t>(size.symbol())] == size)) {
      size = fixed[static_cast<size_t>(size.symbol())];
    }
    return size;
  };
  bool any = false;
  for (const serialization::SizeGuard& guard : linked.guards()) {
    if (!guard.equal()) continue;
    COTAN_ASSIGN_OR_RETURN(SymInt a, SymInt::Parse(guard.a()));
    COTAN_ASSIGN_OR_RETURN(SymInt b, SymInt::Parse(guard.b()));
    a = resolve(std::move(a));
    b = resolve(std::move(b));
    if (a.is_constant()) std::swap(a, b);
    const bool is_simple = b.is_constant() || b.kind() == SymInt::Kind::kSymbol;
    if (a.kind() != SymInt::Kind::kSymbol || !is_simple || a == b) continue;
    fixed[static_cast<size_t>(a.symbol())] = b;
    any = true;
  }
  if (!any) return false;
  std::vector<int64_t> kept;
  std::map<int, int> number_of;  // by old symbol
  for (SymInt& size : sizes) {
    size = resolve(size);
    if (size.is_constant()) continue;
    const auto [entry, is_new] = number_of.try_emplace(size.symbol(), static_cast<int>(kept.size()));
    if (is_new) kept.push_back(symbols[static_cast<size_t>(size.symbol())]);
    size = SymInt::Symbol(entry->second);
  }
  symbols = std::move(kept);
  return true;
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

absl::StatusOr<SizePattern> SizePattern::Parse(const serialization::LinkedBackward& linked) {
  SizePattern pattern;
  pattern.symbols.resize(linked.num_symbols(), 1);
  for (const std::string& text : linked.sizes()) {
    COTAN_ASSIGN_OR_RETURN(SymInt size, ParseSize(text, static_cast<int>(linked.num_symbols())));
    if (!size.is_constant() && size.kind() != SymInt::Kind::kSymbol) {
      return absl::InvalidArgumentError(absl::StrCat("size '", text, "' is neither a constant nor a symbol"));
    }
    pattern.sizes.push_back(std::move(size));
  }
  return pattern;
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

absl::StatusOr<std::unique_ptr<LinkedProgram>> LinkedProgram::Link(const Segment& segment,
                                                                   absl::Span<const uint64_t> key,
                                                                   const SizePattern& pattern, absl::string_view name) {
  Linker linker(segment, pattern, name);
  COTAN_RETURN_IF_ERROR(linker.Emit());
  return Finish(linker, key, pattern);
}

absl::StatusOr<std::unique_ptr<LinkedProgram>> LinkedProgram::LinkDynamic(const Segment& segment,
                                                                          absl::Span<const uint64_t> key,
                                                                          absl::string_view name) {
  SizePattern pattern = SizePattern::OfSymbols(segment.record.sizes());
  while (true) {
    Linker linker(segment, pattern, name);
    COTAN_RETURN_IF_ERROR(linker.Emit());
    SizePattern unified = pattern;
    COTAN_ASSIGN_OR_RETURN(const bool changed, unified.Unify(linker.link().method().linked()));
    if (!changed) return Finish(linker, key, pattern);
    pattern = std::move(unified);
  }
}

absl::StatusOr<std::unique_ptr<LinkedProgram>> LinkedProgram::Load(std::shared_ptr<const Program> program, int method) {
  auto made = std::unique_ptr<LinkedProgram>(new LinkedProgram(std::move(program), method));
  if (!made->method().has_linked()) {
    return absl::InvalidArgumentError(absl::StrCat("method '", made->method().name(), "' is not a linked method"));
  }
  COTAN_ASSIGN_OR_RETURN(made->pattern_, SizePattern::Parse(made->linked()));
  for (const uint32_t input : made->linked().inputs()) made->method_inputs_.push_back(static_cast<int>(input) - 1);
  for (const serialization::IndexInput& index : made->linked().index_inputs()) {
    made->index_inputs_.push_back(static_cast<int>(index.input()));
  }
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
  if (!pattern_.Match(plan->numbers, symbols)) return absl::InvalidArgumentError(kOtherSizes);
  COTAN_RETURN_IF_ERROR(CheckGuards(linked(), symbols));
  if (method_inputs_.size() != segment.record.inputs().size()) {
    return absl::InvalidArgumentError("the linked method describes another number of tensors");
  }
  ScheduleOptions options;
  for (size_t i = 0; i < method_inputs_.size(); ++i) {
    const bool dies = segment.record.inputs()[i].use == InputUse::kDonated;
    if (dies && method_inputs_[i] >= 0) options.donated.push_back(method_inputs_[i]);
  }
  COTAN_ASSIGN_OR_RETURN(plan->executable, Executable::Make(*program_, method_, symbols, target, options));
  COTAN_RETURN_IF_ERROR(CheckTypes(segment, *plan->executable));
  for (const serialization::IndexInput& index : linked().index_inputs()) {
    COTAN_ASSIGN_OR_RETURN(const std::vector<int64_t> elements, IndexElements(index, symbols));
    COTAN_RETURN_IF_ERROR(CheckType("index list", static_cast<int>(index.input()),
                                    plan->executable->plan().inputs[index.input()], DType::kInt64,
                                    {static_cast<int64_t>(elements.size())}));
    COTAN_ASSIGN_OR_RETURN(const Tensor host, Tensor::From<int64_t>(elements, {static_cast<int64_t>(elements.size())}));
    COTAN_ASSIGN_OR_RETURN(Tensor tensor, host.ToDevice(*target.device));
    plan->indices.push_back(std::move(tensor));
  }
  if (static_cast<int>(plans_.size()) == max_plans) plans_.erase(plans_.begin());
  plans_.push_back(std::move(plan));
  return plans_.back().get();
}

absl::Status LinkedProgram::CheckTypes(const Segment& segment, const Executable& executable) const {
  const cotan::Plan& plan = executable.plan();
  const std::vector<autograd::CaptureRecord::Input>& inputs = segment.record.inputs();
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (method_inputs_[i] < 0) continue;
    const TensorSpec& planned = plan.inputs[static_cast<size_t>(method_inputs_[i])];
    const Tensor& tensor = inputs[i].tensor;
    COTAN_RETURN_IF_ERROR(CheckType("input", method_inputs_[i], planned, tensor.dtype(), tensor.sizes()));
  }
  const std::vector<autograd::CaptureRecord::Output>& outputs = segment.record.outputs();
  if (plan.outputs.size() != outputs.size() + segment.outputs.size()) {
    return absl::InvalidArgumentError("the linked method has another number of outputs");
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    COTAN_RETURN_IF_ERROR(CheckType("output", static_cast<int>(i), plan.outputs[i], outputs[i].dtype,
                                    absl::MakeConstSpan(outputs[i].layout.sizes)));
  }
  for (size_t i = 0; i < segment.outputs.size(); ++i) {
    const Arrival& arrival = segment.arrivals[static_cast<size_t>(segment.outputs[i].arrival)];
    const auto sizes = absl::MakeConstSpan(segment.record.sizes())
                           .subspan(static_cast<size_t>(arrival.first_size), static_cast<size_t>(arrival.rank));
    const size_t output = outputs.size() + i;
    COTAN_RETURN_IF_ERROR(CheckType("output", static_cast<int>(output), plan.outputs[output], arrival.dtype, sizes));
  }
  return absl::OkStatus();
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
    COTAN_RETURN_IF_ERROR(executable.SetInput(index_inputs_[i], plan.indices[i]));
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

std::string LinkedProgram::ToString() const { return MethodText(program_->artifact(), method()); }

}  // namespace cotan
