// SPDX-License-Identifier: Apache-2.0

// Compares nccl_types.h and nccl_table.h with <nccl.h>, when compiled, where it is installed beside the toolkit.
#include "kernels/cuda/nccl/nccl_types.h"

#include "gtest/gtest.h"
#include "kernels/cuda/nccl/nccl_table.h"

#if __has_include(<nccl.h>)
#include <nccl.h>

#include <type_traits>

namespace cotan::cuda {
namespace {

// Whether both types are passed alike: integers and handles with the vendor's tags are the same type, enumerations and
// the identifier have a counterpart.
template <typename Ours, typename Theirs>
constexpr bool SameParameter() {
  if constexpr (std::is_pointer_v<Ours> || std::is_pointer_v<Theirs>) {
    return std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>;
  } else if constexpr (std::is_enum_v<Theirs>) {
    return std::is_enum_v<Ours> && std::is_same_v<std::underlying_type_t<Ours>, std::underlying_type_t<Theirs>>;
  } else if constexpr (std::is_class_v<Theirs>) {
    return std::is_class_v<Ours> && sizeof(Ours) == sizeof(Theirs) && alignof(Ours) == alignof(Theirs);
  } else {
    return std::is_same_v<Ours, Theirs>;
  }
}

template <typename OursResult, typename... Ours, typename TheirsResult, typename... Theirs>
constexpr bool SameFunction(OursResult (*)(Ours...), TheirsResult (*)(Theirs...)) {
  if constexpr (sizeof...(Ours) != sizeof...(Theirs)) {
    return false;
  } else {
    return SameParameter<OursResult, TheirsResult>() && (SameParameter<Ours, Theirs>() && ...);
  }
}

}  // namespace

namespace nccl {
#define COTAN_NCCL_FUNCTION(name, parameters) \
  static_assert(                              \
      SameFunction(static_cast<ncclResult_t(*) parameters>(nullptr), static_cast<decltype(&::name)>(nullptr)), #name);
COTAN_NCCL_FUNCTIONS(COTAN_NCCL_FUNCTION)
#undef COTAN_NCCL_FUNCTION
}  // namespace nccl

#define COTAN_SAME_VALUE(name) static_assert(static_cast<int>(nccl::name) == static_cast<int>(::name))
COTAN_SAME_VALUE(ncclSuccess);
COTAN_SAME_VALUE(ncclUnhandledCudaError);
COTAN_SAME_VALUE(ncclSystemError);
COTAN_SAME_VALUE(ncclInternalError);
COTAN_SAME_VALUE(ncclInvalidArgument);
COTAN_SAME_VALUE(ncclInvalidUsage);
COTAN_SAME_VALUE(ncclRemoteError);
COTAN_SAME_VALUE(ncclInProgress);
COTAN_SAME_VALUE(ncclInt32);
COTAN_SAME_VALUE(ncclFloat32);
COTAN_SAME_VALUE(ncclFloat64);
#undef COTAN_SAME_VALUE

TEST(NcclTypes, HandlesAreTheLibrarys) {
  EXPECT_TRUE((std::is_same_v<nccl::ncclComm_t, ::ncclComm_t>));
  EXPECT_TRUE((std::is_same_v<nccl::cudaStream_t, ::cudaStream_t>));
}

}  // namespace cotan::cuda

#else

TEST(NcclTypes, HandlesAreTheLibrarys) { GTEST_SKIP() << "nccl.h is not installed"; }

#endif
