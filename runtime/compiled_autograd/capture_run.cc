// SPDX-License-Identifier: Apache-2.0

#include "runtime/compiled_autograd/capture_run.h"

#include <algorithm>
#include <memory>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "linking/fingerprint.h"
#include "runtime/session/memory_overlap.h"

namespace cotan {

using autograd::BackwardContext;
using autograd::Gradients;
using autograd::GradientType;
using autograd::Hooks;
using autograd::InputUse;
using autograd::Node;

namespace {

// Returns whether the segment cannot be captured, but can be walked.
bool IsRefusal(const absl::Status& status) {
  return absl::IsUnimplemented(status) || absl::IsNotFound(status) || absl::IsInvalidArgument(status);
}

// Returns whether the node, which had no hooks when it was described, has a post-hook.
bool HasPostHooks(const Node& node) { return node.hooks() != nullptr && node.hooks()->has_post_hooks(); }

// Returns whether the gradients that the node gets and gives have dtypes that are known before they arrive.
bool HasKnownTypes(const Node& node) {
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (node.input(i).dtype == DType::kUndefined) return false;
  }
  for (int i = 0; i < node.num_edges(); ++i) {
    const autograd::Edge& edge = node.edge(i);
    if (edge.defined() && edge.node->input(edge.input).dtype == DType::kUndefined) return false;
  }
  return true;
}

}  // namespace

CaptureRun::CaptureRun(autograd::BackwardRun& run, CaptureState& state, const CaptureSettings& settings)
    : run_(run),
      state_(state),
      settings_(settings),
      target_{.kernels = &run.ops().kernels(),
              .device = &run.ops().device(),
              .threads = run.ops().threads(),
              .effects = nullptr},
      segment_(state.segment) {}

absl::Status CaptureRun::Execute() {
  segment_.Clear();
  ++state_.stats.backwards;
  if (settings_.trace) state_.trace.clear();
  absl::Status status = run_.task().Execute([this](Visit& visit) { return VisitNode(visit); });
  if (status.ok()) status = Flush("end");
  if (status.ok() && settings_.check_nan) status = nan_check_.After(run_.captured());
  segment_.Clear();
  state_.outputs.clear();
  if (status.ok() && captured_) ++state_.stats.captures;
  if (status.ok() && !captured_ && !walked_) ++state_.stats.hits;
  return status;
}

void CaptureRun::Note(std::vector<std::string>& list, std::string text) const {
  if (list.size() == CaptureState::kMaxMessages) list.erase(list.begin());
  list.push_back(std::move(text));
}

std::string CaptureRun::Log(absl::string_view event, absl::string_view reason) const {
  std::string line = absl::StrCat(event, " ", segment_.nodes.size(), " nodes from ",
                                  segment_.nodes[0].visit->node->QualifiedName(), " on: ", reason);
  if (settings_.log != nullptr) (*settings_.log)(line);
  return line;
}

// --- nodes --------------------------------------------------------------------

CaptureRun::Pending& CaptureRun::PendingAt(const Visit& visit) {
  const auto index = static_cast<size_t>(visit.index);
  if (pending_.size() <= index) pending_.resize(static_cast<size_t>(run_.task().num_visits()));
  return pending_[index];
}

bool CaptureRun::Arrives(Visit& visit, int input) {
  if (run_.Incoming(visit)[static_cast<size_t>(input)].defined()) return true;
  const Pending& pending = PendingAt(visit);
  return std::any_of(pending.begin(), pending.end(), [input](const auto& entry) { return entry.first == input; });
}

absl::Status CaptureRun::VisitNode(Visit& visit) {
  const std::shared_ptr<Hooks> hooks = visit.node->shared_hooks();
  if (hooks != nullptr && visit.awaited() && hooks->has_gradient_hooks()) {
    COTAN_RETURN_IF_ERROR(Flush(absl::StrCat("hooks of ", visit.node->name())));
    if (settings_.trace) Note(state_.trace, absl::StrCat("hooks of ", visit.node->name()));
    COTAN_RETURN_IF_ERROR(run_.RunGradientHooks(visit));
  }
  if (!visit.runs) {
    CaptureOnly(visit);
    return absl::OkStatus();
  }
  if (settings_.check_nan) COTAN_RETURN_IF_ERROR(nan_check_.Before(*visit.node));
  const bool has_node_hooks = hooks != nullptr && (hooks->has_pre_hooks() || hooks->has_post_hooks());
  if (!has_node_hooks) {
    if (visit.node->UnpacksSaved()) COTAN_RETURN_IF_ERROR(Flush(absl::StrCat("unpack of ", visit.node->name())));
    COTAN_ASSIGN_OR_RETURN(const bool described, Describe(visit));
    if (described && HasPostHooks(*visit.node)) {
      return Flush("post-hooks", absl::UnimplementedError("an unpack hook added a post-hook to the node"));
    }
    if (described) return absl::OkStatus();
  }
  COTAN_RETURN_IF_ERROR(Flush(absl::StrCat("call ", visit.node->name())));
  if (settings_.trace) Note(state_.trace, absl::StrCat("call ", visit.node->name()));
  ++state_.stats.called_nodes;
  previous_ = Fingerprint({previous_, Fingerprint(visit.node->name())});
  return run_.RunAfterHooks(visit);
}

void CaptureRun::BeginSegment() {
  if (!segment_.record.key().empty()) return;
  // CaptureFamily::kTargetWords words.
  segment_.record.Key(reinterpret_cast<uintptr_t>(target_.kernels));
  segment_.record.Key(reinterpret_cast<uintptr_t>(target_.device));
  segment_.record.Key(static_cast<uint64_t>(target_.threads));
  segment_.record.Key(previous_);
  segment_.record.Key(run_.retains_graph() ? 1 : 0);
}

absl::StatusOr<bool> CaptureRun::Describe(Visit& visit) {
  Node& node = *visit.node;
  absl::InlinedVector<bool, 8> incoming(static_cast<size_t>(node.num_inputs()));
  for (int i = 0; i < node.num_inputs(); ++i) {
    if (node.input(i).device != target_.device) return false;
    incoming[static_cast<size_t>(i)] = Arrives(visit, i);
  }
  if (!HasKnownTypes(node)) return false;
  BeginSegment();
  DescribedNode described;
  described.visit = &visit;
  described.first_key = segment_.record.key().size();
  described.first_size = static_cast<int>(segment_.record.sizes().size());
  described.first_input = static_cast<int>(segment_.record.inputs().size());
  described.first_output = static_cast<int>(segment_.record.outputs().size());
  const absl::InlinedVector<bool, 8> needed = run_.NeededEdges(node);
  absl::InlinedVector<bool, 8> results(needed.size());
  const BackwardContext context(run_.ops(), needed, run_.retains_graph());
  absl::StatusOr<bool> captured = node.Describe(context, incoming, absl::MakeSpan(results), segment_.record);
  if (!captured.ok()) return autograd::InBackwardOf(node, captured.status());
  described.num_inputs = static_cast<int>(segment_.record.inputs().size()) - described.first_input;
  if (*captured) AddDescribed(visit, described, needed, results);
  return captured;
}

void CaptureRun::AddDescribed(Visit& visit, const DescribedNode& from, absl::Span<const bool> needed,
                              absl::Span<const bool> results) {
  DescribedNode node = from;
  const Node& function = *visit.node;
  node.first_arrival = static_cast<int>(segment_.arrivals.size());
  for (int i = 0; i < function.num_inputs(); ++i) AddArrival(visit, i);
  for (const auto& [input, index] : visit.captures) {
    const int arrival = node.first_arrival + input;
    if (!segment_.arrivals[static_cast<size_t>(arrival)].defined()) continue;
    segment_.record.Key(static_cast<uint64_t>(input) + 1);
    segment_.outputs.push_back({.arrival = arrival, .captured = index});
  }
  node.first_edge = static_cast<int>(segment_.results.size());
  node.num_edges = static_cast<int>(results.size());
  uint64_t used = 1;
  for (size_t i = 0; i < results.size(); ++i) {
    const autograd::Edge& edge = function.edge(static_cast<int>(i));
    const bool is_used = results[i] && needed[i];
    used = used * 2 + (is_used ? 1 : 0);
    segment_.results.push_back(is_used ? segment_.num_results++ : -1);
    if (used >> 62 != 0) segment_.record.Key(std::exchange(used, 1));
    if (!is_used) continue;
    Visit& target = run_.task().At(edge.node.get());
    Pending& pending = PendingAt(target);
    const auto same = [&](const auto& entry) { return entry.first == edge.input; };
    if (std::none_of(pending.begin(), pending.end(), same)) arriving_.emplace_back(&target, edge.input);
    pending.emplace_back(edge.input, segment_.results.back());
  }
  segment_.record.Key(used);
  segment_.nodes.push_back(node);
}

int CaptureRun::AddArrival(Visit& visit, int input) {
  const GradientType& type = visit.node->input(input);
  Arrival arrival;
  arrival.dtype = type.dtype;
  arrival.rank = static_cast<int>(type.sizes.size());
  arrival.first_size = static_cast<int>(segment_.record.sizes().size());
  Tensor& tensor = run_.Incoming(visit)[static_cast<size_t>(input)];
  if (tensor.defined()) {
    arrival.record_input = static_cast<int>(segment_.record.inputs().size());
    segment_.record.AddInput(std::move(tensor));
    autograd::Clear(tensor);
  }
  Pending& pending = PendingAt(visit);
  for (const auto& [at, result] : pending) {
    if (at == input) arrival.results.push_back(result);
  }
  pending.erase(std::remove_if(pending.begin(), pending.end(), [&](const auto& entry) { return entry.first == input; }),
                pending.end());
  segment_.record.Key(static_cast<uint64_t>(type.dtype) * 4 + (arrival.record_input >= 0 ? 2 : 0) +
                      (arrival.defined() ? 1 : 0));
  if (arrival.defined()) {
    segment_.record.Sizes(type.sizes);
    segment_.record.Key(arrival.results.size());
    for (const int result : arrival.results) segment_.record.Key(static_cast<uint64_t>(result));
  }
  segment_.arrivals.push_back(std::move(arrival));
  return static_cast<int>(segment_.arrivals.size()) - 1;
}

// Keeps the captured gradients of a node that does not run.
void CaptureRun::CaptureOnly(Visit& visit) {
  Gradients& incoming = run_.Incoming(visit);
  if (PendingAt(visit).empty()) {
    for (const auto& [input, index] : visit.captures) {
      run_.captured()[static_cast<size_t>(index)] = incoming[static_cast<size_t>(input)];
    }
    incoming.clear();
    return;
  }
  BeginSegment();
  DescribedNode node;
  node.visit = &visit;
  node.runs = false;
  node.first_key = segment_.record.key().size();
  node.first_output = static_cast<int>(segment_.record.outputs().size());
  segment_.record.KeyText("captured");
  AddDescribed(visit, node, {}, {});
}

// --- segments -----------------------------------------------------------------

absl::Status CaptureRun::Flush(absl::string_view next, const absl::Status& refusal) {
  if (segment_.empty()) {
    segment_.Clear();
    return absl::OkStatus();
  }
  segment_.record.KeyText(next);
  for (const auto& [visit, input] : arriving_) {
    const Pending& pending = PendingAt(*visit);
    const int at = input;
    if (std::none_of(pending.begin(), pending.end(), [at](const auto& entry) { return entry.first == at; })) continue;
    segment_.outputs.push_back({.arrival = AddArrival(*visit, input), .visit = visit, .input = input});
  }
  arriving_.clear();
  ++state_.stats.segments;
  const absl::StatusOr<CaptureCache::Found> found =
      refusal.ok() ? FindProgram() : absl::StatusOr<CaptureCache::Found>(refusal);
  if (found.ok()) {
    COTAN_RETURN_IF_ERROR(RunSegment(*found));
  } else if (IsRefusal(found.status())) {
    COTAN_RETURN_IF_ERROR(WalkSegment(found.status()));
  } else {
    return found.status();
  }
  segment_.Clear();
  return absl::OkStatus();
}

absl::StatusOr<CaptureCache::Found> CaptureRun::FindProgram() {
  COTAN_RETURN_IF_ERROR(FindOverlap());
  return state_.cache.FindOrCapture(segment_, target_, settings_);
}

absl::Status CaptureRun::RunSegment(const CaptureCache::Found& found) {
  previous_ = found.family->fingerprint;
  state_.stats.plans += found.is_new_plan ? 1 : 0;
  if (!found.reason.empty()) {
    if (!captured_) {
      state_.text.clear();
      state_.steps.clear();
    }
    captured_ = true;
    absl::StrAppend(&state_.steps, Steps());
    absl::StrAppend(&state_.text, found.program->ToString());
    Note(state_.reasons, found.reason);
    Log("captured", found.reason);
  }
  if (settings_.trace) {
    Note(state_.trace, absl::StrCat("segment of ", segment_.nodes.size(), " nodes"));
  }
  COTAN_RETURN_IF_ERROR(found.program->Run(*found.plan, state_.arena, segment_, *target_.device, state_.outputs));
  return Complete();
}

std::string CaptureRun::Steps() const {
  std::string text = absl::StrCat("segment of ", segment_.nodes.size(), " nodes\n");
  for (size_t i = 0; i < segment_.nodes.size(); ++i) {
    const DescribedNode& from = segment_.nodes[i];
    absl::StrAppend(&text, i, " ", from.visit->node->QualifiedName(), " ->");
    for (int e = 0; e < from.num_edges; ++e) {
      if (segment_.results[static_cast<size_t>(from.first_edge + e)] < 0) continue;
      const Node* const to = from.visit->node->edge(e).node.get();
      const auto same = [to](const DescribedNode& node) { return node.visit->node.get() == to; };
      const auto found = std::find_if(segment_.nodes.begin(), segment_.nodes.end(), same);
      if (found == segment_.nodes.end()) {
        absl::StrAppend(&text, " out");
      } else {
        absl::StrAppend(&text, " ", found - segment_.nodes.begin());
      }
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

// Returns InvalidArgument if a tensor that the segment writes shares memory with another one of it.
absl::Status CaptureRun::FindOverlap() const {
  const std::vector<autograd::CaptureRecord::Input>& inputs = segment_.record.inputs();
  const auto is_written = [](const auto& input) { return input.use == InputUse::kWritten; };
  if (std::none_of(inputs.begin(), inputs.end(), is_written)) return absl::OkStatus();
  const auto begin_of = [&](size_t i) { return reinterpret_cast<uintptr_t>(inputs[i].tensor.storage()->data()); };
  std::vector<size_t> by_address(inputs.size());
  std::iota(by_address.begin(), by_address.end(), 0);
  std::sort(by_address.begin(), by_address.end(), [&](size_t a, size_t b) { return begin_of(a) < begin_of(b); });
  for (size_t i = 0; i < by_address.size(); ++i) {
    const autograd::CaptureRecord::Input& input = inputs[by_address[i]];
    const uintptr_t end = begin_of(by_address[i]) + input.tensor.storage()->bytes();
    for (size_t k = i + 1; k < by_address.size() && begin_of(by_address[k]) < end; ++k) {
      const autograd::CaptureRecord::Input& other = inputs[by_address[k]];
      if (!is_written(input) && !is_written(other)) continue;
      if (!Overlap(MemoryRegion::Of(input.tensor), MemoryRegion::Of(other.tensor))) continue;
      return absl::InvalidArgumentError("a grad() that the backward adds to shares memory with another tensor of it");
    }
  }
  return absl::OkStatus();
}

absl::Status CaptureRun::Complete() {
  absl::Span<Tensor> outputs = absl::MakeSpan(state_.outputs);
  const size_t num_node_outputs = segment_.record.outputs().size();
  for (size_t i = 0; i < segment_.outputs.size(); ++i) {
    const SegmentOutput& output = segment_.outputs[i];
    Tensor& tensor = outputs[num_node_outputs + i];
    if (output.visit != nullptr) {
      const GradientType& type = output.visit->node->input(output.input);
      COTAN_ASSIGN_OR_RETURN(run_.Incoming(*output.visit)[static_cast<size_t>(output.input)],
                             autograd::MoveNumber(std::move(tensor), type));
    } else {
      run_.captured()[static_cast<size_t>(output.captured)] = std::move(tensor);
    }
  }
  for (size_t i = 0; i < segment_.nodes.size(); ++i) {
    const DescribedNode& node = segment_.nodes[i];
    if (!node.runs) continue;
    const auto first = static_cast<size_t>(node.first_output);
    const size_t end =
        i + 1 < segment_.nodes.size() ? static_cast<size_t>(segment_.nodes[i + 1].first_output) : num_node_outputs;
    const BackwardContext context(run_.ops(), {}, run_.retains_graph());
    node.visit->node->CompleteCapture(context, outputs.subspan(first, end - first));
    if (!run_.retains_graph()) node.visit->node->ReleaseSaved();
  }
  return absl::OkStatus();
}

absl::Status CaptureRun::WalkSegment(const absl::Status& reason) {
  ++state_.stats.walked_segments;
  walked_ = true;
  Note(state_.messages, Log("walked", reason.message()));
  if (settings_.trace) Note(state_.trace, absl::StrCat("walk of ", segment_.nodes.size(), " nodes"));
  const auto restore = [&](Visit& visit, int input, const Arrival& arrival) {
    if (arrival.record_input < 0) return;
    run_.Incoming(visit)[static_cast<size_t>(input)] =
        segment_.record.inputs()[static_cast<size_t>(arrival.record_input)].tensor;
  };
  for (const DescribedNode& node : segment_.nodes) {
    for (int i = 0; i < node.visit->node->num_inputs(); ++i) {
      restore(*node.visit, i, segment_.arrivals[static_cast<size_t>(node.first_arrival + i)]);
    }
  }
  for (const SegmentOutput& output : segment_.outputs) {
    if (output.visit != nullptr) {
      restore(*output.visit, output.input, segment_.arrivals[static_cast<size_t>(output.arrival)]);
    }
  }
  struct Described {
    Visit* visit;
    std::vector<Tensor> inputs;
  };
  std::vector<Described> described;
  for (const DescribedNode& node : segment_.nodes) {
    described.push_back({node.visit, {}});
    if (!node.visit->node->UnpacksSaved()) continue;
    for (int i = node.first_input; i < node.first_input + node.num_inputs; ++i) {
      described.back().inputs.push_back(segment_.record.inputs()[static_cast<size_t>(i)].tensor);
    }
  }
  previous_ = Fingerprint(absl::MakeConstSpan(segment_.record.key()).subspan(CaptureFamily::kTargetWords));
  segment_.Clear();  // so that the engine may take over tensors
  for (const Described& node : described) COTAN_RETURN_IF_ERROR(run_.RunDescribed(*node.visit, node.inputs));
  return absl::OkStatus();
}

}  // namespace cotan
