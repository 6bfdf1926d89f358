// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/weights.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "aot/capture/tensor_data.h"
#include "aot/frontend/pt2/exported_program.h"
#include "aot/frontend/pt2/strided_storage.h"
#include "base/layout.h"
#include "base/status_macros.h"

namespace cotan::aot::pt2 {
namespace {

// Returns constant values. InvalidArgument: a symbolic value; stored tensors have fixed sizes.
absl::StatusOr<DimVector> Constants(const SymIntVector& values) {
  DimVector result;
  for (const SymInt& value : values) {
    if (!value.is_constant() || value.constant() < 0) {
      return absl::InvalidArgumentError(absl::StrCat("its geometry has ", value.ToString()));
    }
    result.push_back(value.constant());
  }
  return result;
}

absl::StatusOr<StridedLayout> LayoutOf(const TensorMeta& meta) {
  StridedLayout layout;
  COTAN_ASSIGN_OR_RETURN(layout.sizes, Constants(meta.sizes));
  COTAN_ASSIGN_OR_RETURN(layout.strides, Constants(meta.strides));
  COTAN_ASSIGN_OR_RETURN(const DimVector offset, Constants({meta.storage_offset}));
  layout.offset = offset[0];
  return layout;
}

// Reads the files of a folder, each once.
class Folder {
 public:
  Folder(const Archive& archive, absl::string_view path) : archive_(archive), path_(path) {}

  absl::StatusOr<StoredTensor> Load(const PayloadMeta& payload) {
    if (payload.path_name.find('/') != std::string::npos) {
      return absl::InvalidArgumentError(absl::StrCat("its file '", payload.path_name, "' is not in ", path_));
    }
    if (payload.use_pickle || !payload.tensor_meta.has_value()) {
      return absl::UnimplementedError(
          "it is a pickle: an object of a Python class (a tensor subclass or script object), which is never run "
          "here. Replace it by plain tensors before exporting");
    }
    const TensorMeta& meta = *payload.tensor_meta;
    COTAN_ASSIGN_OR_RETURN(const StridedLayout layout, LayoutOf(meta));
    COTAN_ASSIGN_OR_RETURN(const at::Tensor storage, Storage(payload.path_name, meta.dtype));
    COTAN_ASSIGN_OR_RETURN(const at::Tensor tensor, ViewOfStorage(storage, layout));
    return StoredTensor{tensor, meta.requires_grad};
  }

 private:
  absl::StatusOr<at::Tensor> Storage(const std::string& file, DType dtype) {
    if (const auto found = storages_.find(file); found != storages_.end()) {
      if (found->second.scalar_type() == ToScalarType(dtype)) return found->second;
      return absl::InvalidArgumentError(absl::StrCat("its file '", file, "' is used with two dtypes"));
    }
    COTAN_ASSIGN_OR_RETURN(const std::string bytes, archive_.Read(absl::StrCat(path_, file)));
    COTAN_ASSIGN_OR_RETURN(at::Tensor storage, StorageFromBytes(bytes, dtype));
    return storages_.emplace(file, std::move(storage)).first->second;
  }

  const Archive& archive_;
  absl::string_view path_;
  absl::flat_hash_map<std::string, at::Tensor> storages_;
};

}  // namespace

absl::StatusOr<StoredTensors> LoadStoredTensors(const Archive& archive, absl::string_view folder,
                                                absl::string_view config) {
  COTAN_ASSIGN_OR_RETURN(const std::string text, archive.Read(config));
  COTAN_ASSIGN_OR_RETURN(const std::vector<PayloadMeta> payloads, ParsePayloadConfig(text, config));
  Folder files(archive, folder);
  StoredTensors tensors;
  for (const PayloadMeta& payload : payloads) {
    absl::StatusOr<StoredTensor> tensor = files.Load(payload);
    if (!tensor.ok()) {
      return absl::Status(tensor.status().code(), absl::StrCat("'", payload.name, "': ", tensor.status().message()));
    }
    tensors.emplace(payload.name, *std::move(tensor));
  }
  return tensors;
}

}  // namespace cotan::aot::pt2
