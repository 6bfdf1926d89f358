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

// The files FOLDER/METHOD.NN.STAGE.txt of one method, NN counting from 00. With
// an empty folder it writes nothing. Not thread-safe.
class GraphDump {
 public:
  GraphDump(std::string folder, std::string method) : folder_(std::move(folder)), method_(std::move(method)) {}

  void Write(absl::string_view stage, const Graph& graph);
  // For passes; valid as long as this object.
  DumpFunction Function();
  // The first failure to write: a status with the path.
  const absl::Status& status() const { return status_; }

 private:
  std::string folder_;
  std::string method_;
  int next_ = 0;
  absl::Status status_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_DUMP_H_
