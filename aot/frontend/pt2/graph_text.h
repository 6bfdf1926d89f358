// SPDX-License-Identifier: Apache-2.0

// Prints parts of exported graphs without the names of their values, so that equal parts have equal texts.
#ifndef COTAN_AOT_FRONTEND_PT2_GRAPH_TEXT_H_
#define COTAN_AOT_FRONTEND_PT2_GRAPH_TEXT_H_

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "aot/frontend/pt2/exported_program.h"

namespace cotan::aot::pt2 {

// Returns the names of the values that a node takes or returns, in order, with repetitions.
std::vector<std::string> NamesIn(const Argument& argument);
std::vector<std::string> InputNames(const Node& node);
std::vector<std::string> OutputNames(const Node& node);

// The text of consecutive nodes. Values have numbers in the order in which they occur. Targets, names of arguments,
// numbers, options and subgraphs are part of the text; names, module paths and metadata of results are not.
class GraphText {
 public:
  // `describe` returns the text of a value that the nodes take from outside, which is printed where it occurs first.
  explicit GraphText(std::function<std::string(const std::string& name)> describe) : describe_(std::move(describe)) {}

  void Add(const Node& node);
  // Adds values that the nodes return.
  void AddResults(const std::vector<std::string>& names);

  const std::string& text() const { return text_; }

 private:
  struct Printer;
  void AddValue(const std::string& name);
  void AddArgument(const Argument& argument);

  std::function<std::string(const std::string& name)> describe_;
  absl::flat_hash_map<std::string, int> numbers_;
  std::string text_;
};

}  // namespace cotan::aot::pt2

#endif  // COTAN_AOT_FRONTEND_PT2_GRAPH_TEXT_H_
