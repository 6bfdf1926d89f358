// SPDX-License-Identifier: Apache-2.0

#include "runtime/compiled_autograd/capture_cache.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "linking/fingerprint.h"

namespace cotan {
namespace {

// Returns "2 changed sizes (total of 14): sizes[3], sizes[7]".
std::string ChangedSizes(const std::vector<int64_t>& before, const std::vector<int64_t>& now) {
  std::vector<std::string> changed;
  for (size_t i = 0; i < now.size(); ++i) {
    if (before[i] != now[i]) changed.push_back(absl::StrCat("sizes[", i, "]"));
  }
  return absl::StrCat(changed.size(), " changed sizes (total of ", now.size(), "): ", absl::StrJoin(changed, ", "));
}

}  // namespace

std::string CaptureCache::NewNode(const Segment& segment) const {
  const std::vector<uint64_t>& key = segment.record.key();
  size_t common = 0;
  for (const auto& [other, family] : families_) {
    const auto [end, unused] = std::mismatch(key.begin(), key.end(), other.begin(), other.end());
    common = std::max(common, static_cast<size_t>(end - key.begin()));
  }
  size_t node = 0;
  while (node + 1 < segment.nodes.size() && segment.nodes[node + 1].first_key <= common) ++node;
  return absl::StrCat("new node ", segment.nodes[node].visit->node->QualifiedName(), " (node call ", node, ")");
}

absl::StatusOr<CaptureFamily*> CaptureCache::FindFamily(const std::vector<uint64_t>& key, const LinkedMethods* linked) {
  if (last_ != nullptr && last_->key == key) return last_;
  const auto found = families_.find(absl::MakeConstSpan(key));
  if (found != families_.end()) return last_ = found->second.get();
  auto family = std::make_unique<CaptureFamily>();
  family->number = next_number_++;
  family->key = key;
  family->fingerprint = Fingerprint(family->portable_key());
  if (linked != nullptr) {
    for (const int method : linked->Find(family->portable_key())) {
      COTAN_ASSIGN_OR_RETURN(std::unique_ptr<LinkedProgram> program, LinkedProgram::Load(linked->program(), method));
      family->programs.push_back(std::move(program));
    }
  }
  if (families_.size() == kMaxFamilies) {
    const auto older = [](const auto& a, const auto& b) { return a.second->last_use < b.second->last_use; };
    families_.erase(std::min_element(families_.begin(), families_.end(), older));
  }
  last_ = family.get();
  families_.emplace(absl::MakeConstSpan(last_->key), std::move(family));
  return last_;
}

absl::StatusOr<std::string> CaptureCache::FindPlan(const Segment& segment, const ExecutionTarget& target, int max_plans,
                                                   Found& found) {
  std::string refused;
  const std::vector<std::unique_ptr<LinkedProgram>>& programs = found.family->programs;
  for (auto program = programs.rbegin(); program != programs.rend(); ++program) {
    absl::StatusOr<LinkedProgram::Plan*> plan = (*program)->MakePlan(segment, target, max_plans);
    if (plan.ok()) {
      found.program = program->get();
      found.plan = *plan;
      found.is_new_plan = true;
      return "";
    }
    if (!absl::IsInvalidArgument(plan.status())) return plan.status();
    if (refused.empty() || refused == kOtherSizes) refused = std::string(plan.status().message());
  }
  return refused;
}

absl::StatusOr<CaptureCache::Found> CaptureCache::FindOrCapture(const Segment& segment, const ExecutionTarget& target,
                                                                const CaptureSettings& settings) {
  const std::vector<int64_t>& numbers = segment.record.sizes();
  const bool is_known = (last_ != nullptr && last_->key == segment.record.key()) ||
                        families_.contains(absl::MakeConstSpan(segment.record.key()));
  const std::string new_node = is_known ? "" : NewNode(segment);
  Found found;
  COTAN_ASSIGN_OR_RETURN(found.family, FindFamily(segment.record.key(), settings.linked.get()));
  CaptureFamily& family = *found.family;
  family.last_use = ++uses_;
  COTAN_RETURN_IF_ERROR(family.refused);
  for (const std::unique_ptr<LinkedProgram>& program : family.programs) {
    found.program = program.get();
    if ((found.plan = program->FindPlan(numbers)) != nullptr) return found;
  }
  COTAN_ASSIGN_OR_RETURN(const std::string refused, FindPlan(segment, target, settings.max_plans, found));
  if (found.plan != nullptr) return found;
  if (!family.seen.empty()) {
    found.reason = ChangedSizes(family.seen.back(), numbers);
  } else {
    found.reason = new_node.empty() ? NewNode(segment) : new_node;
  }
  if (refused != kOtherSizes && !refused.empty()) absl::StrAppend(&found.reason, "; ", refused);
  if (!settings.capture) {
    return absl::NotFoundError(absl::StrCat("no linked method fits (", found.reason, ") and captures are disabled"));
  }
  if (family.seen.size() == kMaxSeen) family.seen.erase(family.seen.begin());
  family.seen.push_back(numbers);
  const absl::Status captured = Capture(segment, target, settings, found);
  if (family.programs.empty()) family.refused = captured;
  COTAN_RETURN_IF_ERROR(captured);
  return found;
}

absl::Status CaptureCache::Capture(const Segment& segment, const ExecutionTarget& target,
                                   const CaptureSettings& settings, Found& found) {
  const CaptureFamily& family = *found.family;
  const std::string name = absl::StrCat("backward.", family.number, ".", family.seen.size() - 1);
  if (settings.dynamic && segment.record.has_dynamic_sizes()) {
    absl::StatusOr<std::unique_ptr<LinkedProgram>> made =
        LinkedProgram::LinkDynamic(segment, family.portable_key(), name);
    if (made.ok()) return Plan(segment, target, settings.max_plans, *std::move(made), found);
    if (!absl::IsUnimplemented(made.status()) && !absl::IsInvalidArgument(made.status())) return made.status();
  }
  const absl::Span<const std::vector<int64_t>> seen = absl::MakeConstSpan(family.seen);
  const SizePattern pattern = SizePattern::Of(settings.dynamic ? seen : seen.last(1));
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<LinkedProgram> made,
                         LinkedProgram::Link(segment, family.portable_key(), pattern, name));
  return Plan(segment, target, settings.max_plans, std::move(made), found);
}

absl::Status CaptureCache::Plan(const Segment& segment, const ExecutionTarget& target, int max_plans,
                                std::unique_ptr<LinkedProgram> made, Found& found) {
  COTAN_ASSIGN_OR_RETURN(found.plan, made->MakePlan(segment, target, max_plans));
  found.program = made.get();
  found.is_new_plan = true;
  std::vector<std::unique_ptr<LinkedProgram>>& programs = found.family->programs;
  if (programs.size() == kMaxSeen) programs.erase(programs.begin());
  programs.push_back(std::move(made));
  return absl::OkStatus();
}

std::vector<serialization::Method> CaptureCache::Methods() const {
  std::vector<const CaptureFamily*> families;
  for (const auto& [key, family] : families_) families.push_back(family.get());
  std::sort(families.begin(), families.end(), [](const auto* a, const auto* b) { return a->number < b->number; });
  std::vector<serialization::Method> methods;
  for (const CaptureFamily* family : families) {
    for (const std::unique_ptr<LinkedProgram>& program : family->programs) {
      methods.push_back(program->method());
      methods.back().set_name(absl::StrCat("backward.", methods.size() - 1));
    }
  }
  return methods;
}

}  // namespace cotan
