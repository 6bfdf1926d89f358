// Dynamic dimensions and sizes of memory as a command line says them. No LibTorch.
#ifndef COTAN_AOT_TOOLS_DYNAMIC_FLAG_H_
#define COTAN_AOT_TOOLS_DYNAMIC_FLAG_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "aot/dynamic/dynamic_dim.h"

namespace cotan::aot {

//   input.0:0=batch[1:64]   dimension 0 of input 0, of 1 to 64
//   input.1:-1=time[2:]     the last dimension of input 1, at least 2
//   target.0:0=batch        dimension 0 of the first input of the loss function
// `num_inputs`: of the model; targets come behind them.
// InvalidArgument: another form, an input that there is not, an empty range;
// the message shows the form.
absl::StatusOr<DynamicDim> ParseDynamicDim(absl::string_view text, int num_inputs);

// Bytes of "64MiB", "1.5GiB", "300KiB", "4096". InvalidArgument: anything else,
// or none.
absl::StatusOr<int64_t> ParseBytes(absl::string_view text);

}  // namespace cotan::aot

#endif  // COTAN_AOT_TOOLS_DYNAMIC_FLAG_H_
