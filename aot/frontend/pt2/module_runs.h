// SPDX-License-Identifier: Apache-2.0

// Finds the modules of an exported program that repeat, such as the layers of a transformer, by the module stacks of
// its nodes. Each becomes a run, which the interpreter calls as a block (aot/blocks/block.h).
//
// Runs are equal if their nodes are, up to the names of values: the same targets and numbers, connected in the same
// way, on values of the same kinds and symbolic types. The largest runs are taken first, so that a layer that repeats
// is one run, and the equal modules in it are none unless they repeat there.
#ifndef COTAN_AOT_FRONTEND_PT2_MODULE_RUNS_H_
#define COTAN_AOT_FRONTEND_PT2_MODULE_RUNS_H_

#include <cstddef>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "aot/frontend/pt2/exported_program.h"

namespace cotan::aot::pt2 {

// Which repeats are worth a block.
struct RepeatLimits {
  size_t min_calls = 2;  // equal runs in one graph
  size_t min_nodes = 8;  // of a run, without those that only check or compute numbers
};

struct ModuleRun;
// A node of the graph, or a run of nodes.
using Step = std::variant<const Node*, std::shared_ptr<const ModuleRun>>;
// Nodes in an order in which they can run: that of the graph, with numbers moved out of modules that only use them.
using Schedule = std::vector<Step>;

// A parameter or buffer that a run uses.
struct RunState {
  std::string value;  // its name in the graph: "p_layers_3_fc_weight"
  std::string name;   // below the path of the run: "fc.weight"
};

// A call of a module. Values have their names in the graph, each once, in the order of their first use.
struct ModuleRun {
  std::string path;  // of the module, below that of the run around it: "layers.3"
  std::vector<RunState> parameters;
  std::vector<RunState> buffers;
  std::vector<std::string> inputs;   // other values that it takes: tensors, constants and numbers
  std::vector<std::string> results;  // values that are used after it
  std::string number;                // a result that is a number, which a block cannot return; "" if there is none
  std::string key;                   // equal for equal runs
  Schedule body;
};

// Returns the nodes of the program, without those that only check (OnlyChecks()), and its runs.
Schedule FindModuleRuns(const ExportedProgram& program, const RepeatLimits& limits);
// Returns the nodes of the program as they are.
Schedule PlainSchedule(const ExportedProgram& program);

}  // namespace cotan::aot::pt2

#endif  // COTAN_AOT_FRONTEND_PT2_MODULE_RUNS_H_
