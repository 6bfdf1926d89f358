// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/module_runs.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "aot/frontend/pt2/graph_text.h"
#include "aot/frontend/pt2/interpreter.h"
#include "aot/frontend/pt2/scalar_op.h"

namespace cotan::aot::pt2 {
namespace {

constexpr size_t kAtTheEnd = std::numeric_limits<size_t>::max();
// The stack of nodes that the export added outside of any module.
constexpr absl::string_view kNoModule = "_empty_nn_module_stack_from_metadata_hook";

// A node with the modules that it was called in, outermost first ("KEY,PATH,TYPE").
struct Item {
  const Node* node = nullptr;
  std::vector<absl::string_view> stack;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
};

// Consecutive items of one call of a module.
struct Instance {
  size_t begin = 0;
  size_t end = 0;
  absl::string_view module;

  size_t size() const { return end - begin; }
  bool Contains(const Instance& other) const { return begin <= other.begin && other.end <= end; }
};

// Returns the path in "KEY,PATH,TYPE".
absl::string_view PathOf(absl::string_view module) {
  const std::vector<absl::string_view> fields = absl::StrSplit(module, ',');
  return fields.size() > 1 ? fields[1] : "";
}

// Returns `name` below `path`; `name` itself if it is not there.
std::string Below(absl::string_view path, absl::string_view name) {
  if (!path.empty() && absl::ConsumePrefix(&name, absl::StrCat(path, "."))) return std::string(name);
  return std::string(name);
}

size_t CommonDepth(const std::vector<absl::string_view>& a, const std::vector<absl::string_view>& b) {
  return static_cast<size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

// Returns whether the node computes numbers from numbers or from sizes.
bool ComputesNumbers(const Node& node) {
  return IsScalarOp(node.target) || absl::StartsWith(node.target, "torch.ops.aten.sym_");
}

// Returns whether the item may change the geometry of the value.
bool WritesTo(const Item& item, const std::string& value) {
  return absl::StrContains(item.node->target, "_.") && !item.inputs.empty() && item.inputs[0] == value;
}

// --- order ---------------------------------------------------------------------------

bool HasModules(const Node& node) {
  return !node.module_stack.empty() && !absl::StartsWith(node.module_stack, kNoModule);
}

std::vector<Item> ItemsOf(const Graph& graph) {
  std::vector<Item> items;
  for (const Node& node : graph.nodes) {
    if (OnlyChecks(node.target)) continue;
    Item& item = items.emplace_back();
    item.node = &node;
    if (HasModules(node)) item.stack = absl::StrSplit(node.module_stack, ';');
    item.inputs = InputNames(node);
    item.outputs = OutputNames(node);
  }
  return items;
}

// Gives nodes without modules those that the nodes before and after them have in common.
void FillStacks(std::vector<Item>& items) {
  for (size_t i = 0; i < items.size();) {
    size_t end = i;
    while (end < items.size() && !HasModules(*items[end].node)) ++end;
    if (end > i && i > 0 && end < items.size()) {
      const std::vector<absl::string_view>& before = items[i - 1].stack;
      const size_t depth = CommonDepth(before, items[end].stack);
      const std::vector<absl::string_view> common(before.begin(), before.begin() + static_cast<std::ptrdiff_t>(depth));
      for (size_t j = i; j < end; ++j) items[j].stack = common;
    }
    i = std::max(end, i + 1);
  }
}

// Moves numbers to the begin of the outermost module around them in which no operand of theirs is computed: the first
// of several layers may compute a number that all of them use. Item i is at place 2 i + 1; what moves before it gets
// place 2 i.
void MoveNumbersOut(std::vector<Item>& items) {
  std::vector<std::pair<size_t, size_t>> places;     // of the items, with their indices
  absl::flat_hash_map<std::string, size_t> defined;  // place by value; inputs of the graph have none
  std::vector<size_t> begins;                        // by depth: the first item of the module
  std::vector<absl::string_view> previous;
  for (size_t i = 0; i < items.size(); ++i) {
    Item& item = items[i];
    begins.resize(CommonDepth(previous, item.stack));
    begins.resize(item.stack.size(), i);
    previous = item.stack;
    size_t place = 2 * i + 1;
    if (ComputesNumbers(*item.node)) {
      size_t after = 0;
      for (const std::string& name : item.inputs) {
        if (const auto found = defined.find(name); found != defined.end()) after = std::max(after, found->second);
      }
      const auto may_move_to = [&](size_t begin) {
        if (2 * begin + 1 <= after) return false;
        for (size_t j = begin; j < i; ++j) {
          for (const std::string& name : item.inputs) {
            if (WritesTo(items[j], name)) return false;
          }
        }
        return true;
      };
      const auto begin = std::find_if(begins.begin(), begins.end(), may_move_to);
      if (begin != begins.end()) {
        place = 2 * *begin;
        item.stack.resize(static_cast<size_t>(begin - begins.begin()));
      }
    }
    for (const std::string& name : item.outputs) defined[name] = place;
    places.emplace_back(place, i);
  }
  std::sort(places.begin(), places.end());
  std::vector<Item> sorted;
  for (const auto& [place, index] : places) sorted.push_back(std::move(items[index]));
  items = std::move(sorted);
}

// Adds the calls of modules among the items, outer ones first.
void AddInstances(const std::vector<Item>& items, size_t begin, size_t end, size_t depth,
                  std::vector<Instance>& instances) {
  for (size_t i = begin; i < end;) {
    if (items[i].stack.size() <= depth) {
      ++i;
      continue;
    }
    size_t next = i + 1;
    while (next < end && items[next].stack.size() > depth && items[next].stack[depth] == items[i].stack[depth]) ++next;
    instances.push_back({i, next, items[i].stack[depth]});
    AddInstances(items, i, next, depth + 1, instances);
    i = next;
  }
}

// --- runs ----------------------------------------------------------------------------

class Finder {
 public:
  Finder(const ExportedProgram& program, const RepeatLimits& limits)
      : program_(program), limits_(limits), items_(ItemsOf(program.graph)) {
    FillStacks(items_);
    MoveNumbersOut(items_);
    for (const InputSpec& input : program.inputs) {
      if (const Name* name = std::get_if<Name>(&input.arg)) inputs_.emplace(name->name, &input);
    }
    for (size_t i = 0; i < items_.size(); ++i) {
      for (const std::string& name : items_[i].inputs) last_use_[name] = i;
    }
    for (const Argument& output : program.graph.outputs) {
      for (const std::string& name : NamesIn(output)) last_use_[name] = kAtTheEnd;
    }
  }

  Schedule Find() {
    std::vector<Instance> instances;
    AddInstances(items_, 0, items_.size(), 0, instances);
    return Plan(0, items_.size(), instances, "");
  }

 private:
  // Returns the items as steps. `instances` are calls of modules among them, and `path` is that of the run around them.
  Schedule Plan(size_t begin, size_t end, const std::vector<Instance>& instances, absl::string_view path) {
    Schedule schedule;
    for (const Instance& run : Choose(instances)) {
      for (; begin < run.begin; ++begin) schedule.emplace_back(items_[begin].node);
      schedule.emplace_back(MakeRun(run, instances, path));
      begin = run.end;
    }
    for (; begin < end; ++begin) schedule.emplace_back(items_[begin].node);
    return schedule;
  }

  // Returns the instances that become runs, in order: of those that repeat, the largest first.
  std::vector<Instance> Choose(const std::vector<Instance>& instances) {
    std::vector<Instance> chosen;
    for (const auto& [negative_size, group] : GroupsBySize(instances)) {
      if (group.size() < limits_.min_calls) continue;
      absl::btree_map<std::string, std::vector<Instance>> equal;
      for (const Instance& instance : group) {
        const bool is_inside =
            std::any_of(chosen.begin(), chosen.end(), [&](const Instance& outer) { return outer.Contains(instance); });
        if (!is_inside) equal[Described(instance).key].push_back(instance);
      }
      for (const auto& [key, repeats] : equal) AddRepeats(repeats, chosen);
    }
    std::sort(chosen.begin(), chosen.end(), [](const Instance& a, const Instance& b) { return a.begin < b.begin; });
    return chosen;
  }

  // Returns instances that are large enough by their negative size.
  absl::btree_map<int64_t, std::vector<Instance>> GroupsBySize(const std::vector<Instance>& instances) const {
    absl::btree_map<int64_t, std::vector<Instance>> groups;
    for (const Instance& instance : instances) {
      if (NumNodes(instance) >= limits_.min_nodes) groups[-static_cast<int64_t>(instance.size())].push_back(instance);
    }
    return groups;
  }

  // Adds equal instances, if there are enough of them. Of modules with the same items, the outermost is taken.
  void AddRepeats(const std::vector<Instance>& repeats, std::vector<Instance>& chosen) const {
    std::vector<Instance> apart;
    for (const Instance& instance : repeats) {
      if (apart.empty() || !apart.back().Contains(instance)) apart.push_back(instance);
    }
    if (apart.size() >= limits_.min_calls) chosen.insert(chosen.end(), apart.begin(), apart.end());
  }

  size_t NumNodes(const Instance& instance) const {
    size_t count = 0;
    for (size_t i = instance.begin; i < instance.end; ++i) count += ComputesNumbers(*items_[i].node) ? 0 : 1;
    return count;
  }

  std::shared_ptr<const ModuleRun> MakeRun(const Instance& instance, const std::vector<Instance>& instances,
                                           absl::string_view path) {
    auto run = std::make_shared<ModuleRun>(Described(instance));
    const absl::string_view own_path = PathOf(instance.module);
    run->path = Below(path, own_path);
    for (std::vector<RunState>* states : {&run->parameters, &run->buffers}) {
      for (RunState& state : *states) state.name = Below(own_path, state.name);
    }
    std::vector<Instance> inside;
    for (const Instance& other : instances) {
      if (instance.Contains(other) && other.size() < instance.size()) inside.push_back(other);
    }
    run->body = Plan(instance.begin, instance.end, inside, own_path);
    return run;
  }

  // Returns the run of an instance without path and body; its states have their qualified names.
  const ModuleRun& Described(const Instance& instance) {
    const auto [entry, is_new] = described_.try_emplace(std::make_pair(instance.begin, instance.end));
    if (is_new) entry->second = Describe(instance);
    return entry->second;
  }

  ModuleRun Describe(const Instance& instance) const {
    ModuleRun run;
    const auto take = [&](const std::string& name) {
      const auto input = inputs_.find(name);
      const InputSpec::Kind kind = input == inputs_.end() ? InputSpec::Kind::kUserInput : input->second->kind;
      if (kind == InputSpec::Kind::kParameter) {
        run.parameters.push_back({name, input->second->name});
        return absl::StrCat("p ", TypeText(name));
      }
      if (kind == InputSpec::Kind::kBuffer) {
        run.buffers.push_back({name, input->second->name});
        return absl::StrCat("b ", TypeText(name));
      }
      run.inputs.push_back(name);
      return TypeText(name);
    };
    GraphText text(take);
    for (size_t i = instance.begin; i < instance.end; ++i) text.Add(*items_[i].node);
    for (size_t i = instance.begin; i < instance.end; ++i) {
      for (const std::string& name : items_[i].outputs) {
        const auto use = last_use_.find(name);
        if (use == last_use_.end() || use->second < instance.end) continue;
        run.results.push_back(name);
        if (IsNumber(name, *items_[i].node)) run.number = name;
      }
    }
    text.AddResults(run.results);
    run.key = text.text();
    return run;
  }

  bool IsNumber(const std::string& name, const Node& node) const {
    const Graph& graph = program_.graph;
    return ComputesNumbers(node) || graph.sym_int_values.contains(name) || graph.sym_floats.contains(name);
  }

  // Returns the type of a tensor, or the value of an integer, in terms of the symbols of the program.
  std::string TypeText(const std::string& name) const {
    const Graph& graph = program_.graph;
    if (const auto number = graph.sym_int_values.find(name); number != graph.sym_int_values.end()) {
      return number->second.ToString();
    }
    const auto tensor = graph.tensor_values.find(name);
    if (tensor == graph.tensor_values.end()) return "?";
    const auto append = [](std::string* out, const SymInt& size) { out->append(size.ToString()); };
    const TensorMeta& meta = tensor->second;
    return absl::StrCat("t", static_cast<int>(meta.dtype), "[", absl::StrJoin(meta.sizes, ",", append), "]{",
                        absl::StrJoin(meta.strides, ",", append), "}");
  }

  const ExportedProgram& program_;
  const RepeatLimits limits_;
  std::vector<Item> items_;
  absl::flat_hash_map<std::string, const InputSpec*> inputs_;  // of the graph, by value
  absl::flat_hash_map<std::string, size_t> last_use_;          // item by value; kAtTheEnd: an output of the graph
  absl::flat_hash_map<std::pair<size_t, size_t>, ModuleRun> described_;
};

}  // namespace

Schedule FindModuleRuns(const ExportedProgram& program, const RepeatLimits& limits) {
  return Finder(program, limits).Find();
}

Schedule PlainSchedule(const ExportedProgram& program) {
  Schedule schedule;
  for (const Node& node : program.graph.nodes) schedule.emplace_back(&node);
  return schedule;
}

}  // namespace cotan::aot::pt2
