// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/cublaslt/sim_cublaslt.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/sim/cublaslt/host_product.h"
#include "kernels/cuda/sim/cublaslt/product_contract.h"

namespace cotan::cuda::sim {

using namespace cublaslt;  // The vendor's names. NOLINT(google-build-using-namespace)

namespace {

// Marks algorithms of this library.
constexpr uint64_t kMagic = 0x636f74616e626c61;

struct Preference {
  uint64_t max_workspace_bytes = 0;
  uint32_t reduction_mask = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::array<uint32_t, 4> alignment = {256, 256, 256, 256};  // of a, b, c, d
};

struct Handle {};

struct Operation {
  OperationAttributes attributes;
  uint64_t bias = 0;  // address
};

struct Algorithm {
  ProductSignature signature;
  std::array<uint32_t, 4> alignment;
  uint64_t bias_alignment = 1;
  uint64_t workspace_bytes = 0;
};

// The objects of one kind, by handle.
template <typename Object, typename HandleType>
class Objects {
 public:
  HandleType Add(Object object) {
    auto owned = std::make_unique<Object>(std::move(object));
    auto* handle = reinterpret_cast<HandleType>(owned.get());
    objects_[handle] = std::move(owned);
    return handle;
  }
  absl::Status Remove(HandleType handle) {
    if (objects_.erase(handle) == 1) return absl::OkStatus();
    return absl::InvalidArgumentError("an unknown object is destroyed");
  }
  absl::StatusOr<Object*> Find(HandleType handle, absl::string_view name) {
    const auto it = objects_.find(handle);
    if (it != objects_.end()) return it->second.get();
    return absl::InvalidArgumentError(absl::StrCat("the ", name, " is unknown"));
  }
  size_t size() const { return objects_.size(); }

 private:
  std::map<HandleType, std::unique_ptr<Object>> objects_;
};

// Reads the value of an attribute. InvalidArgument: `bytes` is not its size.
template <typename T>
absl::Status ReadValue(const void* value, size_t bytes, T& to) {
  if (value == nullptr || bytes != sizeof(T)) {
    return absl::InvalidArgumentError(absl::StrCat("an attribute of ", sizeof(T), " bytes is set with ", bytes));
  }
  std::memcpy(&to, value, sizeof(T));
  return absl::OkStatus();
}

absl::Status UnknownAttribute(absl::string_view of, unsigned attribute) {
  return absl::InvalidArgumentError(absl::StrCat("attribute ", attribute, " of a ", of, " is unknown"));
}

absl::Status SetAttribute(Operation& operation, cublasLtMatmulDescAttributes_t attribute, const void* value,
                          size_t bytes) {
  OperationAttributes& attributes = operation.attributes;
  cublasOperation_t transpose = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
    case CUBLASLT_MATMUL_DESC_TRANSB:
      COTAN_RETURN_IF_ERROR(ReadValue(value, bytes, transpose));
      if (transpose != CUBLAS_OP_N && transpose != CUBLAS_OP_T) {
        return absl::InvalidArgumentError(absl::StrCat("operation ", transpose, " is unknown"));
      }
      (attribute == CUBLASLT_MATMUL_DESC_TRANSA ? attributes.transpose_a : attributes.transpose_b) = transpose;
      return absl::OkStatus();
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      COTAN_RETURN_IF_ERROR(ReadValue(value, bytes, epilogue));
      if (epilogue != CUBLASLT_EPILOGUE_DEFAULT && epilogue != CUBLASLT_EPILOGUE_BIAS) {
        return absl::InvalidArgumentError(absl::StrCat("epilogue ", epilogue, " is unknown"));
      }
      attributes.epilogue = epilogue;
      return absl::OkStatus();
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return ReadValue(value, bytes, operation.bias);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return ReadValue(value, bytes, attributes.bias_type.emplace());
  }
  return UnknownAttribute("product", attribute);
}

absl::Status SetAttribute(LayoutAttributes& layout, cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                          size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return ReadValue(value, bytes, layout.batch_count);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return ReadValue(value, bytes, layout.batch_stride);
  }
  return UnknownAttribute("layout", attribute);
}

absl::Status SetAttribute(Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                          size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return ReadValue(value, bytes, preference.max_workspace_bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return ReadValue(value, bytes, preference.reduction_mask);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return ReadValue(value, bytes, preference.alignment[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES]);
  }
  return UnknownAttribute("preference", attribute);
}

const char* NameOf(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_ARCH_MISMATCH:
      return "CUBLAS_STATUS_ARCH_MISMATCH";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "unknown error";
}

}  // namespace

// The library behind the table.
class CublasLtState {
 public:
  using Fault = SimCublasLt::Fault;

  explicit CublasLtState(SimCublasLt::EnqueueFunction enqueue) : enqueue_(std::move(enqueue)) {
    FillObjectFunctions();
    FillAttributeFunctions();
    table_.cublasLtMatmulAlgoGetHeuristic = [this](auto... arguments) { return Choose(arguments...); };
    table_.cublasLtMatmul = [this](auto... arguments) { return Matmul(arguments...); };
    table_.cublasLtGetStatusName = [this](cublasStatus_t status) {
      const bool is_last = status == last_status_ && !violation_.empty();
      status_name_ = is_last ? absl::StrCat(NameOf(status), " (", violation_, ")") : NameOf(status);
      return status_name_.c_str();
    };
  }

  const CublasLtTable& table() const { return table_; }
  const std::string& violation() const { return violation_; }
  int64_t num_handles() const { return num_handles_; }
  int64_t num_products() const { return num_products_; }
  void Fail(Fault fault, int count) { faults_[fault] = count; }
  absl::Status CheckLeaks() const {
    if (handles_.size() + operations_.size() + layouts_.size() + preferences_.size() == 0) return absl::OkStatus();
    return absl::FailedPreconditionError(absl::StrCat("cuBLASLt objects are not destroyed: ", handles_.size(),
                                                      " handles, ", operations_.size(), " products, ", layouts_.size(),
                                                      " layouts, ", preferences_.size(), " preferences"));
  }

 private:
  // Returns the library's status for the status of a check.
  cublasStatus_t Result(const absl::Status& status) {
    if (status.ok()) return CUBLAS_STATUS_SUCCESS;
    violation_ = std::string(status.message());
    last_status_ =
        status.code() == absl::StatusCode::kUnimplemented ? CUBLAS_STATUS_NOT_SUPPORTED : CUBLAS_STATUS_INVALID_VALUE;
    return last_status_;
  }

  bool TakeFault(Fault fault) {
    int& count = faults_[fault];
    return count > 0 && count-- > 0;
  }

  void FillObjectFunctions() {
    table_.cublasLtCreate = [this](cublasLtHandle_t* handle) {
      if (TakeFault(Fault::kNoHandle)) return CUBLAS_STATUS_NOT_INITIALIZED;
      *handle = handles_.Add({});
      ++num_handles_;
      return CUBLAS_STATUS_SUCCESS;
    };
    table_.cublasLtDestroy = [this](cublasLtHandle_t handle) { return Result(handles_.Remove(handle)); };
    table_.cublasLtMatmulDescCreate = [this](cublasLtMatmulDesc_t* operation, cublasComputeType_t compute_type,
                                             cudaDataType_t scale_type) {
      *operation = operations_.Add({.attributes = {.compute_type = compute_type, .scale_type = scale_type}});
      return CUBLAS_STATUS_SUCCESS;
    };
    table_.cublasLtMatmulDescDestroy = [this](cublasLtMatmulDesc_t operation) {
      return Result(operations_.Remove(operation));
    };
    table_.cublasLtMatrixLayoutCreate = [this](cublasLtMatrixLayout_t* layout, cudaDataType_t type, uint64_t rows,
                                               uint64_t columns, int64_t leading_dimension) {
      constexpr auto kMax = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
      if (rows > kMax || columns > kMax) return Result(absl::InvalidArgumentError("a matrix has a negative size"));
      *layout = layouts_.Add({.type = type,
                              .rows = static_cast<int64_t>(rows),
                              .columns = static_cast<int64_t>(columns),
                              .leading_dimension = leading_dimension});
      return CUBLAS_STATUS_SUCCESS;
    };
    table_.cublasLtMatrixLayoutDestroy = [this](cublasLtMatrixLayout_t layout) {
      return Result(layouts_.Remove(layout));
    };
    table_.cublasLtMatmulPreferenceCreate = [this](cublasLtMatmulPreference_t* preference) {
      *preference = preferences_.Add({});
      return CUBLAS_STATUS_SUCCESS;
    };
    table_.cublasLtMatmulPreferenceDestroy = [this](cublasLtMatmulPreference_t preference) {
      return Result(preferences_.Remove(preference));
    };
  }

  // Sets an attribute of one of `objects`.
  template <typename Store, typename HandleType, typename Attribute>
  cublasStatus_t Set(Store& objects, absl::string_view name, HandleType handle, Attribute attribute, const void* value,
                     size_t bytes) {
    const auto object = objects.Find(handle, name);
    if (!object.ok()) return Result(object.status());
    return Result(SetAttribute(**object, attribute, value, bytes));
  }

  void FillAttributeFunctions() {
    table_.cublasLtMatmulDescSetAttribute = [this](auto... arguments) {
      return Set(operations_, "product", arguments...);
    };
    table_.cublasLtMatrixLayoutSetAttribute = [this](auto... arguments) {
      return Set(layouts_, "layout", arguments...);
    };
    table_.cublasLtMatmulPreferenceSetAttribute = [this](auto... arguments) {
      return Set(preferences_, "preference", arguments...);
    };
  }

  absl::StatusOr<ProductSignature> Signature(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation,
                                             cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                             cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d) {
    COTAN_RETURN_IF_ERROR(handles_.Find(handle, "handle").status());
    COTAN_ASSIGN_OR_RETURN(const Operation* found, operations_.Find(operation, "product"));
    ProductSignature signature = {.operation = found->attributes, .a = {}, .b = {}, .c = {}, .d = {}};
    for (const auto& [to, layout, name] :
         {std::make_tuple(&signature.a, a, "layout of a"), std::make_tuple(&signature.b, b, "layout of b"),
          std::make_tuple(&signature.c, c, "layout of c"), std::make_tuple(&signature.d, d, "layout of d")}) {
      COTAN_ASSIGN_OR_RETURN(*to, Copied(layouts_.Find(layout, name)));
    }
    COTAN_RETURN_IF_ERROR(CheckSignature(signature));
    if (signature.AddsBias() && found->bias == 0) return absl::InvalidArgumentError("the bias is null");
    return signature;
  }
  static absl::StatusOr<LayoutAttributes> Copied(const absl::StatusOr<LayoutAttributes*>& layout) {
    if (!layout.ok()) return layout.status();
    return **layout;
  }

  cublasStatus_t Choose(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                        cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                        cublasLtMatmulPreference_t preference, int max_results,
                        cublasLtMatmulHeuristicResult_t* results, int* found) {
    *found = 0;
    const absl::StatusOr<ProductSignature> signature = Signature(handle, operation, a, b, c, d);
    if (!signature.ok()) return Result(signature.status());
    const absl::StatusOr<Preference*> wishes = preferences_.Find(preference, "preference");
    if (!wishes.ok()) return Result(wishes.status());
    if (max_results < 1) return Result(absl::InvalidArgumentError("no algorithm is asked for"));
    for (const uint32_t alignment : (*wishes)->alignment) {
      if (alignment == 0 || (alignment & (alignment - 1)) != 0 || alignment < signature->a.ElementBytes()) {
        return Result(absl::InvalidArgumentError(absl::StrCat("an alignment of ", alignment, " bytes")));
      }
    }
    if (TakeFault(Fault::kNoAlgorithm)) return CUBLAS_STATUS_NOT_SUPPORTED;
    // Long sums are computed in parts, if there is a workspace for them.
    constexpr int64_t kLongSum = 256;
    constexpr uint64_t kParts = 4;
    const bool is_transposed = signature->operation.transpose_a == CUBLAS_OP_T;
    const int64_t k = is_transposed ? signature->a.rows : signature->a.columns;
    const auto elements = static_cast<uint64_t>(signature->d.rows * signature->d.columns * signature->d.batch_count);
    const uint64_t wanted = k >= kLongSum ? kParts * elements * 4 : 0;
    const uint64_t workspace = wanted <= (*wishes)->max_workspace_bytes ? wanted : 0;
    results[0] = {};
    results[0].algo.data[0] = kMagic;
    results[0].algo.data[1] = algorithms_.size();
    results[0].workspaceSize = workspace;
    const uint64_t bias = (*operations_.Find(operation, "product"))->bias;
    algorithms_.push_back({*signature, (*wishes)->alignment, signature->AddsBias() ? bias & -bias : 1, workspace});
    *found = 1;
    return CUBLAS_STATUS_SUCCESS;
  }

  absl::StatusOr<Algorithm> FindAlgorithm(const cublasLtMatmulAlgo_t* algorithm, const ProductSignature& signature) {
    if (algorithm == nullptr || algorithm->data[0] != kMagic || algorithm->data[1] >= algorithms_.size()) {
      return absl::InvalidArgumentError("the algorithm is none that the library returned");
    }
    const Algorithm& found = algorithms_[algorithm->data[1]];
    if (found.signature == signature) return found;
    return absl::InvalidArgumentError("the algorithm was chosen for another product");
  }

  cublasStatus_t Matmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha, const void* a,
                        cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                        const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                        cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                        size_t workspace_bytes, cudaStream_t stream) {
    const absl::StatusOr<ProductSignature> signature =
        Signature(handle, operation, a_layout, b_layout, c_layout, d_layout);
    if (!signature.ok()) return Result(signature.status());
    const absl::StatusOr<Algorithm> found = FindAlgorithm(algorithm, *signature);
    if (!found.ok()) return Result(found.status());
    ProductArguments product = {.signature = *signature,
                                .a = reinterpret_cast<uint64_t>(a),
                                .b = reinterpret_cast<uint64_t>(b),
                                .c = reinterpret_cast<uint64_t>(c),
                                .d = reinterpret_cast<uint64_t>(d),
                                .bias = (*operations_.Find(operation, "product"))->bias,
                                .workspace = reinterpret_cast<uint64_t>(workspace),
                                .workspace_bytes = found->workspace_bytes};
    const bool is_f64 = signature->operation.scale_type == CUDA_R_64F;
    product.alpha = is_f64 ? *static_cast<const double*>(alpha) : *static_cast<const float*>(alpha);
    product.beta = is_f64 ? *static_cast<const double*>(beta) : *static_cast<const float*>(beta);
    if (workspace_bytes < found->workspace_bytes) {
      return Result(absl::InvalidArgumentError(
          absl::StrCat("a workspace of ", workspace_bytes, " bytes; the algorithm needs ", found->workspace_bytes)));
    }
    const absl::Status aligned = CheckAlignment(product, *found);
    if (!aligned.ok()) return Result(aligned);
    const absl::Status separate = CheckOverlaps(product);
    if (!separate.ok()) return Result(separate);
    if (TakeFault(Fault::kWorkspaceRefused)) return CUBLAS_STATUS_NOT_SUPPORTED;
    if (TakeFault(Fault::kExecutionFailed)) return CUBLAS_STATUS_EXECUTION_FAILED;
    return Queue(product, stream);
  }

  static absl::Status CheckAlignment(const ProductArguments& product, const Algorithm& algorithm) {
    constexpr std::array<absl::string_view, 4> kNames = {"a", "b", "c", "d"};
    const std::array<uint64_t, 4> addresses = {product.a, product.b, product.c, product.d};
    for (size_t i = 0; i < addresses.size(); ++i) {
      if (addresses[i] == 0) return absl::InvalidArgumentError(absl::StrCat("matrix ", kNames[i], " is null"));
      if (addresses[i] % algorithm.alignment[i] == 0) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("matrix ", kNames[i], " is not aligned to ", algorithm.alignment[i], " bytes, as promised"));
    }
    if (product.bias % algorithm.bias_alignment != 0) {
      return absl::InvalidArgumentError(absl::StrCat("the bias is not aligned to ", algorithm.bias_alignment,
                                                     " bytes, as when the algorithm was chosen"));
    }
    return absl::OkStatus();
  }

  cublasStatus_t Queue(const ProductArguments& product, cudaStream_t stream) {
    const ProductSignature& s = product.signature;
    const bool is_transposed = s.operation.transpose_a == CUBLAS_OP_T;
    const std::string label = absl::StrCat("cublasLtMatmul M=", s.d.rows, " N=", s.d.columns,
                                           " K=", is_transposed ? s.a.rows : s.a.columns, " batch ", s.d.batch_count);
    const absl::Status queued =
        enqueue_(stream, label, [product](DeviceMemory& memory) { return ComputeProduct(product, memory); });
    if (!queued.ok()) {
      violation_ = std::string(queued.message());
      last_status_ = CUBLAS_STATUS_EXECUTION_FAILED;
      return last_status_;
    }
    ++num_products_;
    return CUBLAS_STATUS_SUCCESS;
  }

  const SimCublasLt::EnqueueFunction enqueue_;
  CublasLtTable table_;
  Objects<Handle, cublasLtHandle_t> handles_;
  Objects<Operation, cublasLtMatmulDesc_t> operations_;
  Objects<LayoutAttributes, cublasLtMatrixLayout_t> layouts_;
  Objects<Preference, cublasLtMatmulPreference_t> preferences_;
  std::vector<Algorithm> algorithms_;
  std::map<Fault, int> faults_;
  cublasStatus_t last_status_ = CUBLAS_STATUS_SUCCESS;
  std::string violation_;
  std::string status_name_;
  int64_t num_handles_ = 0;
  int64_t num_products_ = 0;
};

SimCublasLt::SimCublasLt(EnqueueFunction enqueue) : state_(std::make_unique<CublasLtState>(std::move(enqueue))) {}
SimCublasLt::~SimCublasLt() = default;

const CublasLtTable& SimCublasLt::table() const { return state_->table(); }
void SimCublasLt::Fail(Fault fault, int count) { state_->Fail(fault, count); }
std::string SimCublasLt::LastViolation() const { return state_->violation(); }
int64_t SimCublasLt::num_handles() const { return state_->num_handles(); }
int64_t SimCublasLt::num_products() const { return state_->num_products(); }
absl::Status SimCublasLt::CheckLeaks() const { return state_->CheckLeaks(); }

}  // namespace cotan::cuda::sim
