// SPDX-License-Identifier: Apache-2.0

// Convolutions for tests, and their comparison with plain loops.
#ifndef COTAN_KERNELS_CPU_CONVOLUTION_CONVOLUTION_CASES_H_
#define COTAN_KERNELS_CPU_CONVOLUTION_CONVOLUTION_CASES_H_

#include <random>
#include <vector>

#include "base/dtype.h"
#include "base/layout.h"
#include "kernels/api/kernel.h"
#include "kernels/testing/host_tensor.h"
#include "serialization/schema/program.pb.h"

namespace cotan::cpu {

// A convolution's attributes and the sizes of its three tensors.
struct ConvolutionCase {
  serialization::Convolution op;
  DimVector input;
  DimVector weight;
  DimVector output;
};

// The sizes and attributes of a case. Vectors have one element for each spatial dimension.
struct ConvolutionGeometry {
  DimVector input;
  int64_t channels = 1;  // of the output
  DimVector kernel;
  DimVector stride;
  DimVector dilation;
  DimVector padding;
  bool transposed = false;
  int64_t groups = 1;
};

ConvolutionCase MakeConvolutionCase(const ConvolutionGeometry& geometry);

// Draws up to three dimensions, groups, strides, dilations and paddings, also of transposed convolutions.
ConvolutionCase RandomConvolutionCase(std::mt19937_64& random);

// Runs the op with one, two and five threads, and expects the same bits.
void RunConvolution(KernelFactory factory, const serialization::Op& op, const std::vector<testing::HostTensor*>& inputs,
                    testing::HostTensor& output);

// Compares the convolution of random operands in random layouts, and both of its gradients, with loops in double.
void ExpectConvolution(const ConvolutionCase& c, std::mt19937_64& random, bool has_bias, DType dtype = DType::kFloat32);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_CONVOLUTION_CONVOLUTION_CASES_H_
