// SPDX-License-Identifier: Apache-2.0

// Writes a graph's text after each stage of compilation. No LibTorch.
#ifndef COTAN_AOT_DUMP_H_
#define COTAN_AOT_DUMP_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "aot/ir/graph.h"
#include "aot/ir/pass.h"

namespace cotan::aot {

// Writer of the files FOLDER/METHOD.NN.STAGE.txt of one method; NN counts from 00. With an empty
// folder it writes nothing. Not thread-safe.
class GraphDump {
 public:
  GraphDump(std::string folder, std::string method) : folder_(std::move(folder)), method_(std::move(method)) {}

  // Writes the text of `graph` (ir/text.h). Does nothing after the first error.
  void Write(absl::string_view stage, const Graph& graph);
  // Returns Write() as a function for passes; null with an empty folder. Valid as long as this
  // object.
  DumpFunction Function();
  // Returns the first error. Unavailable: a file cannot be written; the message has its path.
  const absl::Status& status() const { return status_; }

 private:
  std::string folder_;
  std::string method_;
  int next_ = 0;
  absl::Status status_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_DUMP_H_
