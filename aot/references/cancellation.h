// How far a recorded result may be off that is zero but for rounding.
#ifndef COTAN_AOT_REFERENCES_CANCELLATION_H_
#define COTAN_AOT_REFERENCES_CANCELLATION_H_

namespace cotan::aot {

// In epsilons of its dtype, relative to the largest of what cancelled: a sum has
// the error of its summands.
inline constexpr double kCancelledEpsilons = 256;

}  // namespace cotan::aot

#endif  // COTAN_AOT_REFERENCES_CANCELLATION_H_
