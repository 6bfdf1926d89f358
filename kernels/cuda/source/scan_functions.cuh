// SPDX-License-Identifier: Apache-2.0

// The functions of scans (scan.cuh), and the exchange of their states between threads.
//
// A function is a type with
//   State: the reduction of some consecutive elements
//   None(): of no elements; Of(value, position): of one; Join(a, b): of those of a, then those of b
//   Result(state), Position(state): what is stored
#pragma once

#include "cotan/math.cuh"

namespace cotan::scan {

constexpr int kThreads = 256;
constexpr unsigned kAllLanes = 0xffffffffu;

// The type in which values are compared, and the conversions.
template <typename T>
struct Format {
  using Value = int32;
  __device__ static Value Load(T x) { return x; }
  __device__ static T Store(Value x) { return static_cast<T>(x); }
};
template <typename T>
struct SameFormat {
  using Value = T;
  __device__ static Value Load(T x) { return x; }
  __device__ static T Store(Value x) { return x; }
};
template <>
struct Format<int64> : SameFormat<int64> {};
template <>
struct Format<float> : SameFormat<float> {};
template <>
struct Format<double> : SameFormat<double> {};
template <>
struct Format<float16> {
  using Value = float;
  __device__ static Value Load(float16 x) { return ToFloat(x); }
  __device__ static float16 Store(Value x) { return ToFloat16(x); }
};
template <>
struct Format<bfloat16> {
  using Value = float;
  __device__ static Value Load(bfloat16 x) { return ToFloat(x); }
  __device__ static bfloat16 Store(Value x) { return ToBfloat16(x); }
};

// --- Functions ---------------------------------------------------------------

// Floats are accumulated in f64.
template <typename Value>
struct AccumulatorOf {
  using Type = Value;
};
template <>
struct AccumulatorOf<float> {
  using Type = double;
};

template <typename T>
struct Accumulation {
  using Value = typename Format<T>::Value;
  using State = typename AccumulatorOf<Value>::Type;
  template <typename Index>
  __device__ static State Of(Value value, Index) {
    return static_cast<State>(value);
  }
  __device__ static Value Result(State state) { return static_cast<Value>(state); }
};

template <typename T>
struct Sum : Accumulation<T> {
  using State = typename Accumulation<T>::State;
  // -0 leaves every float as it is.
  __device__ static State None() { return kIsFloat<State> ? State(-0.0) : State(0); }
  __device__ static State Join(State a, State b) {
    if constexpr (kIsFloat<State>) {
      return a + b;
    } else {
      return cotan::Add(a, b);
    }
  }
};
template <typename T>
struct Product : Accumulation<T> {
  using State = typename Accumulation<T>::State;
  __device__ static State None() { return 1; }
  __device__ static State Join(State a, State b) {
    if constexpr (kIsFloat<State>) {
      return a * b;
    } else {
      return cotan::Mul(a, b);
    }
  }
};
template <typename T>
struct LogSumExp : Accumulation<T> {
  __device__ static double None() { return __longlong_as_double(0xfff0000000000000ll); }
  __device__ static double Join(double a, double b) {
    if (IsNan(a) || IsNan(b)) return a + b;
    const double high = a > b ? a : b;
    const double low = a > b ? b : a;
    if (IsInf(high) || low == None()) return high;
    return high + log1p(exp(low - high));
  }
};

// A value and its position; both have the same size, unless lines are very long.
template <typename Value, typename Position>
struct Best {
  Value value;
  Position position;  // the largest one: no value
};

// The last one of equal elements counts, and NaN wins.
template <typename T, typename P, bool kMax>
struct Extreme {
  using Value = typename Format<T>::Value;
  using State = Best<Value, P>;
  __device__ static State None() { return {Value(0), static_cast<P>(-1)}; }
  template <typename Index>
  __device__ static State Of(Value value, Index position) {
    return {value, static_cast<P>(position)};
  }
  __device__ static State Join(State a, State b) {
    const bool later = kMax ? b.value >= a.value : b.value <= a.value;
    const bool comparable = a.value == a.value && b.value == b.value;
    const bool takes_b = b.position != static_cast<P>(-1) &&
                         (a.position == static_cast<P>(-1) || (comparable ? later : b.value != b.value));
    return {takes_b ? b.value : a.value, takes_b ? b.position : a.position};
  }
  __device__ static Value Result(State state) { return state.value; }
  __device__ static int64 Position(State state) { return static_cast<int64>(state.position); }
};

// --- States of other lanes ---------------------------------------------------

template <typename T>
__device__ inline T FromLaneBelow(T state, int distance, int width) {
  return __shfl_up_sync(kAllLanes, state, distance, width);
}
template <typename V, typename I>
__device__ inline Best<V, I> FromLaneBelow(Best<V, I> state, int distance, int width) {
  return {__shfl_up_sync(kAllLanes, state.value, distance, width),
          __shfl_up_sync(kAllLanes, state.position, distance, width)};
}
template <typename T>
__device__ inline T FromLane(T state, int lane, int width) {
  return __shfl_sync(kAllLanes, state, lane, width);
}
template <typename V, typename I>
__device__ inline Best<V, I> FromLane(Best<V, I> state, int lane, int width) {
  return {__shfl_sync(kAllLanes, state.value, lane, width), __shfl_sync(kAllLanes, state.position, lane, width)};
}

// Of a group of threads: the states of those before this one, and of all.
template <typename State>
struct Prefix {
  State before;
  State all;
};

// Joins the states of groups of kLanes lanes. All lanes of the warp call it.
template <typename F, int kLanes>
__device__ inline Prefix<typename F::State> JoinLanes(typename F::State state) {
  if constexpr (kLanes == 1) {
    return {F::None(), state};
  } else {
    const int lane = static_cast<int>(threadIdx.x) % kLanes;
#pragma unroll
    for (int distance = 1; distance < kLanes; distance *= 2) {
      const typename F::State below = FromLaneBelow(state, distance, kLanes);
      if (lane >= distance) state = F::Join(below, state);
    }
    const typename F::State below = FromLaneBelow(state, 1, kLanes);
    return {lane == 0 ? F::None() : below, FromLane(state, kLanes - 1, kLanes)};
  }
}

// Joins the states of kCount groups of threads whose states lie in `states`, kStride apart; this thread is of `group`.
template <typename F, int kCount, int kStride>
__device__ inline Prefix<typename F::State> JoinGroups(const typename F::State* states, int group) {
  Prefix<typename F::State> prefix = {F::None(), F::None()};
#pragma unroll
  for (int g = 0; g < kCount; ++g) {
    if (g == group) prefix.before = prefix.all;
    prefix.all = F::Join(prefix.all, states[g * kStride]);
  }
  return prefix;
}

// The states of groups of threads: two sets, which are written by turns, so that one barrier per exchange suffices.
template <typename F, int kCount>
struct Exchange {
  typename F::State states[2][kCount];
};

}  // namespace cotan::scan
