// SPDX-License-Identifier: Apache-2.0

// The C interface of Cotan's runtime (libcotan.so): loads compiled programs (.cotan files) and trains and runs
// them. C99 and C++.
//
// Functions. Each that can fail returns a cotan_status, COTAN_OK or an error code, and stores a text for
// cotan_last_error() of the calling thread. On error, output parameters are unchanged unless the function says
// otherwise. No function throws a C++ exception or ends the process. A handle or pointer that is NULL where one is
// needed is COTAN_INVALID_ARGUMENT; handles that were freed, and pointers to less memory than stated, are undefined
// behaviour.
//
// Handles. Programs, sessions and tensors are opaque. The caller frees each handle that a function returns through a
// `**out` parameter. A session keeps its program alive, and a tensor its memory: handles may be freed in any order.
//
// Structs. The caller sets `struct_size` to the size of the struct in its own cotan.h, by the initializer of the
// struct (COTAN_SESSION_OPTIONS_INIT). A library of another version reads and writes no more than that. An unknown
// field that is not zero is COTAN_UNIMPLEMENTED, a size below that of the struct's first version
// COTAN_INVALID_ARGUMENT.
//
// Threads. Functions of one program may be called by any number of threads at once. A session is used by one thread
// at a time, different sessions by different threads: a call while another one uses the session is
// COTAN_FAILED_PRECONDITION. A tensor may be read by several threads. A thread must not be cancelled
// (pthread_cancel) during a call.
//
// Texts. Those that the library returns as `const char*` are UTF-8 and end with NUL.
//
//   cotan_program* program = NULL;
//   cotan_session* session = NULL;
//   if (cotan_program_load("digits.cotan", &program) != COTAN_OK) return Fail(cotan_last_error());
//   if (cotan_session_create(program, NULL, &session) != COTAN_OK) return Fail(cotan_last_error());
//   cotan_tensor* arguments[2] = {images, labels};
//   cotan_tensor* results[2] = {NULL, NULL};
//   if (cotan_session_run(session, "train_step", arguments, 2, results, 2) != COTAN_OK) ...
#ifndef COTAN_H_
#define COTAN_H_

#include <stddef.h>
#include <stdint.h>

#define COTAN_VERSION_MAJOR 0
#define COTAN_VERSION_MINOR 2
#define COTAN_VERSION_PATCH 0

// The version of the binary interface; libcotan.so.0 has version 0. It grows when a program that was compiled with
// an older header would no longer work.
#define COTAN_ABI_VERSION 0

#if defined(__GNUC__)
#define COTAN_API __attribute__((visibility("default")))
#else
#define COTAN_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

// --- status ------------------------------------------------------------------

// COTAN_OK or an error code, with the numbers of absl::StatusCode.
typedef int32_t cotan_status;
enum {
  COTAN_OK = 0,
  COTAN_CANCELLED = 1,
  COTAN_UNKNOWN = 2,
  COTAN_INVALID_ARGUMENT = 3,
  COTAN_DEADLINE_EXCEEDED = 4,
  COTAN_NOT_FOUND = 5,
  COTAN_ALREADY_EXISTS = 6,
  COTAN_PERMISSION_DENIED = 7,
  COTAN_RESOURCE_EXHAUSTED = 8,
  COTAN_FAILED_PRECONDITION = 9,
  COTAN_ABORTED = 10,
  COTAN_OUT_OF_RANGE = 11,
  COTAN_UNIMPLEMENTED = 12,
  COTAN_INTERNAL = 13,
  COTAN_UNAVAILABLE = 14,
  COTAN_DATA_LOSS = 15,
  COTAN_UNAUTHENTICATED = 16
};

// Returns the text of the last call on this thread that failed, which begins with the name of the function; "" if
// none has failed. Valid until the next call on this thread that fails, at most until the thread ends.
COTAN_API const char* cotan_last_error(void);
// Returns the code of that call; COTAN_OK if none has failed.
COTAN_API cotan_status cotan_last_error_code(void);
// Returns "OK", "INVALID_ARGUMENT", ...; "UNKNOWN" for other numbers. Never freed.
COTAN_API const char* cotan_status_name(cotan_status status);

// --- version -----------------------------------------------------------------

// Returns the version of the library, such as "0.2.0". Never freed.
COTAN_API const char* cotan_version(void);
// Returns the COTAN_ABI_VERSION of the library.
COTAN_API uint32_t cotan_abi_version(void);
// Returns COTAN_OK if programs that were compiled with `abi_version`, the COTAN_ABI_VERSION of their header, may use
// this library. COTAN_FAILED_PRECONDITION: they must be compiled again.
COTAN_API cotan_status cotan_check_abi(uint32_t abi_version);

// --- types -------------------------------------------------------------------

// Element types of tensors. The numbers are those of the .cotan file.
typedef int32_t cotan_dtype;
enum {
  COTAN_UNDEFINED = 0,
  COTAN_BOOL = 1,  // one byte, 0 or 1
  COTAN_U8 = 2,
  COTAN_I8 = 3,
  COTAN_I16 = 4,
  COTAN_I32 = 5,
  COTAN_I64 = 6,
  COTAN_F16 = 7,
  COTAN_BF16 = 8,
  COTAN_F32 = 9,
  COTAN_F64 = 10,
  COTAN_C64 = 11,  // real and imaginary part, f32 each
  COTAN_C128 = 12,
  COTAN_F8E4M3FN = 13,
  COTAN_F8E5M2 = 14
};

// Returns "f32", "i64", ...; "undefined" for other numbers. Never freed.
COTAN_API const char* cotan_dtype_name(cotan_dtype dtype);
// Returns the bytes per element; 0 for COTAN_UNDEFINED and other numbers.
COTAN_API size_t cotan_dtype_size(cotan_dtype dtype);

typedef struct cotan_program cotan_program;
typedef struct cotan_session cotan_session;
typedef struct cotan_tensor cotan_tensor;

// Releases memory that was lent to the library. It is called once, on the thread that frees the last handle that
// uses the memory, and must not call the library or throw an exception.
typedef void (*cotan_release_fn)(void* context);

// --- tensors -----------------------------------------------------------------

typedef struct cotan_tensor_info {
  size_t struct_size;
  cotan_dtype dtype;
  int32_t rank;
  // `rank` numbers each; strides in elements. Valid until the tensor is freed or is a result of a run.
  const int64_t* sizes;
  const int64_t* strides;
  int64_t num_elements;
  // Element (0, ..., 0), in host memory; NULL if the tensor has no elements. Valid as `sizes`.
  void* data;
  // 1 if the elements are row-major without gaps, else 0.
  int32_t is_contiguous;
} cotan_tensor_info;
#define COTAN_TENSOR_INFO_INIT \
  { sizeof(cotan_tensor_info), 0, 0, NULL, NULL, 0, NULL, 0 }

// Makes a row-major tensor in memory of its own, with a copy of `data`, `bytes` bytes, or with zeros if `data` is
// NULL and `bytes` is 0. `sizes` has `rank` numbers and may be NULL if that is 0.
// COTAN_INVALID_ARGUMENT: unknown dtype; a size is negative; the sizes are too large; `bytes` is not the number of
// bytes of the elements. COTAN_RESOURCE_EXHAUSTED: not enough memory.
COTAN_API cotan_status cotan_tensor_create(cotan_dtype dtype, int32_t rank, const int64_t* sizes, const void* data,
                                           size_t bytes, cotan_tensor** out);

// Makes a tensor over memory of the caller, without a copy. `strides` has `rank` numbers, in elements, or is NULL
// for row-major. `data` is the address of element (0, ..., 0), and `bytes` the size of the memory from there. The
// memory must stay until `release` is called with `context`; if `release` is NULL, until all handles that use it are
// freed: the tensor, and sessions that keep it as a saved value or gradient. A method may write to its arguments;
// others read them only.
// COTAN_INVALID_ARGUMENT: as cotan_tensor_create(); a stride is negative; the elements exceed `bytes`; `data` is not
// aligned for the dtype. On error `release` is not called.
COTAN_API cotan_status cotan_tensor_borrow(cotan_dtype dtype, int32_t rank, const int64_t* sizes,
                                           const int64_t* strides, void* data, size_t bytes, cotan_release_fn release,
                                           void* context, cotan_tensor** out);

// Frees the handle; NULL is allowed.
COTAN_API void cotan_tensor_free(cotan_tensor* tensor);

// Writes a description of the tensor to `*info`.
COTAN_API cotan_status cotan_tensor_get_info(const cotan_tensor* tensor, cotan_tensor_info* info);
// Writes the elements in row-major order to `data`, which has room for `bytes` bytes.
// COTAN_INVALID_ARGUMENT: `bytes` is not the number of bytes of the elements.
COTAN_API cotan_status cotan_tensor_read(const cotan_tensor* tensor, void* data, size_t bytes);

// --- programs ----------------------------------------------------------------

// Loads and verifies a .cotan file. While it is loaded or a session of it lives, the file may be replaced (renamed
// over) on a local disk, but not be written or truncated; use cotan_program_load_copy() for network or removable
// storage. COTAN_NOT_FOUND, COTAN_PERMISSION_DENIED, COTAN_UNAVAILABLE: it cannot be read. COTAN_DATA_LOSS: it is
// damaged. COTAN_INVALID_ARGUMENT: it is not a .cotan file. COTAN_UNIMPLEMENTED: a newer version wrote it.
COTAN_API cotan_status cotan_program_load(const char* path, cotan_program** out);
// Loads and verifies a copy of the bytes of a .cotan file. `name` stands for the file in messages. Errors as
// cotan_program_load(), except those of reading; COTAN_RESOURCE_EXHAUSTED.
COTAN_API cotan_status cotan_program_load_copy(const void* bytes, size_t size, const char* name, cotan_program** out);
// Loads and verifies the bytes of a .cotan file without a copy: constants of the program stay there. The bytes must
// stay unchanged until `release` is called with `context`; if `release` is NULL, until the program and all its
// sessions are freed. Errors as cotan_program_load_copy(); then `release` is not called.
COTAN_API cotan_status cotan_program_load_memory(const void* bytes, size_t size, const char* name,
                                                 cotan_release_fn release, void* context, cotan_program** out);
// Frees the handle; NULL is allowed.
COTAN_API void cotan_program_free(cotan_program* program);

// The pointers in the structs below are valid until the handle of the program is freed.

typedef struct cotan_method_info {
  size_t struct_size;
  const char* name;
  // Numbers of arguments and results of cotan_session_run().
  size_t num_inputs;
  size_t num_outputs;
} cotan_method_info;
#define COTAN_METHOD_INFO_INIT \
  { sizeof(cotan_method_info), NULL, 0, 0 }

typedef struct cotan_value_info {
  size_t struct_size;
  const char* name;
  // Dtype and sizes, such as "f32[s0,3]": s0 is the dynamic dimension 0 of the program.
  const char* type;
  cotan_dtype dtype;
  int32_t rank;
  const int64_t* sizes;  // `rank` numbers; -1 for a size that depends on dynamic dimensions
} cotan_value_info;
#define COTAN_VALUE_INFO_INIT \
  { sizeof(cotan_value_info), NULL, NULL, 0, 0, NULL }

// A dynamic dimension: its values are in [min, max].
typedef struct cotan_dimension_info {
  size_t struct_size;
  const char* name;
  int64_t min;
  int64_t max;
} cotan_dimension_info;
#define COTAN_DIMENSION_INFO_INIT \
  { sizeof(cotan_dimension_info), NULL, 0, 0 }

// Roles of states.
enum {
  COTAN_PARAMETER = 1,
  COTAN_BUFFER = 2,
  COTAN_OPTIMIZER_SLOT = 3,
  COTAN_HYPERPARAMETER = 4,
  COTAN_GRADIENT_ACCUMULATOR = 5,
  COTAN_RNG = 6,
  COTAN_CONSTANT = 7
};

typedef struct cotan_state_info {
  size_t struct_size;
  const char* name;
  const char* type;  // as in cotan_value_info
  cotan_dtype dtype;
  int32_t rank;
  const int64_t* sizes;
  int32_t role;
  int32_t requires_grad;  // 1: a parameter that the optimizer updates
  int32_t persistent;     // 1: checkpoints contain it
  const char* owner;      // of a slot or accumulator: the name of its parameter; else ""
} cotan_state_info;
#define COTAN_STATE_INFO_INIT \
  { sizeof(cotan_state_info), NULL, NULL, 0, 0, NULL, 0, 0, 0, NULL }

// Return the numbers of methods, states and dynamic dimensions; 0 if `program` is NULL.
COTAN_API size_t cotan_program_num_methods(const cotan_program* program);
COTAN_API size_t cotan_program_num_states(const cotan_program* program);
COTAN_API size_t cotan_program_num_dimensions(const cotan_program* program);

// Write descriptions to `*info`. COTAN_OUT_OF_RANGE: an index is not below the number of methods, inputs, ...
COTAN_API cotan_status cotan_program_method(const cotan_program* program, size_t method, cotan_method_info* info);
COTAN_API cotan_status cotan_program_input(const cotan_program* program, size_t method, size_t input,
                                           cotan_value_info* info);
COTAN_API cotan_status cotan_program_output(const cotan_program* program, size_t method, size_t output,
                                            cotan_value_info* info);
COTAN_API cotan_status cotan_program_state(const cotan_program* program, size_t state, cotan_state_info* info);
COTAN_API cotan_status cotan_program_dimension(const cotan_program* program, size_t dimension,
                                               cotan_dimension_info* info);

// Write the index of a method, or of the state with this name or alias, to `*index`. COTAN_NOT_FOUND: there is none
// of this name.
COTAN_API cotan_status cotan_program_find_method(const cotan_program* program, const char* name, size_t* index);
COTAN_API cotan_status cotan_program_find_state(const cotan_program* program, const char* name, size_t* index);

// Make the argument for an input that is a number: a tensor without dimensions, or, for an integer that decides
// sizes, an empty tensor i64[value, 0]. A bool is 0 or another number. COTAN_INVALID_ARGUMENT: the input is not a
// number, or another kind of number. COTAN_OUT_OF_RANGE: its dtype cannot hold the value; or an index, as above.
COTAN_API cotan_status cotan_program_number_double(const cotan_program* program, size_t method, size_t input,
                                                   double value, cotan_tensor** out);
COTAN_API cotan_status cotan_program_number_int64(const cotan_program* program, size_t method, size_t input,
                                                  int64_t value, cotan_tensor** out);
COTAN_API cotan_status cotan_program_number_bool(const cotan_program* program, size_t method, size_t input,
                                                 int32_t value, cotan_tensor** out);

// --- sessions ----------------------------------------------------------------

enum { COTAN_EFFECT_PRINT = 0, COTAN_EFFECT_METRIC = 1, COTAN_EFFECT_ASSERT = 2 };

// One execution of a print, metric or assertion of the program. Valid while the handler runs.
typedef struct cotan_effect {
  size_t struct_size;
  int32_t kind;
  const char* name;
  const char* message;
  const cotan_tensor* value;  // row-major
} cotan_effect;

// Handles an effect, on the thread that runs the method. It must not call the session. A result other than COTAN_OK
// becomes the status of the run, which then leaves states and arguments unchanged.
typedef cotan_status (*cotan_effect_fn)(void* context, const cotan_effect* effect);

typedef struct cotan_session_options {
  size_t struct_size;
  // "cpu"; NULL means "cpu".
  const char* device;
  // Number of threads that a run may use; 0 = one for each physical core.
  int32_t threads;
  // Number of plans cached per method, one for each set of sizes; 0 = 8.
  int32_t max_plans;
  // Handler of prints and metrics; a program that has some needs it.
  cotan_effect_fn on_effect;
  void* on_effect_context;
  // If not 0, failed assertions go to `on_effect`, too, whose status decides. If 0, they fail the run with
  // COTAN_INVALID_ARGUMENT.
  int32_t handle_assertions;
  // If not 0, runs take subnormal (denormal) numbers as zeros, operands and results alike.
  int32_t flush_denormals;
} cotan_session_options;
#define COTAN_SESSION_OPTIONS_INIT \
  { sizeof(cotan_session_options), NULL, 0, 0, NULL, NULL, 0, 0 }

// Creates a session: states with their initial values, and the memory that runs need. `options` may be NULL.
// COTAN_INVALID_ARGUMENT: a number is out of range, or `device` is unknown. COTAN_FAILED_PRECONDITION: a print or
// metric has no handler. COTAN_RESOURCE_EXHAUSTED: not enough memory. COTAN_UNAVAILABLE: the program's file cannot be
// read. COTAN_UNIMPLEMENTED: this processor cannot flush subnormal numbers.
COTAN_API cotan_status cotan_session_create(const cotan_program* program, const cotan_session_options* options,
                                            cotan_session** out);
// Frees the handle; NULL is allowed. Tensors that the session returned stay valid.
COTAN_API void cotan_session_free(cotan_session* session);

// Runs a method once. States are updated when it returns. Results: if `results[i]` is NULL, it becomes a new tensor,
// which the caller frees; else the elements are written to the memory of that tensor if dtype, sizes and strides
// fit and the memory is not that of an argument, a state or another result, and if not, the tensor gets other memory.
// With tensors of an earlier run as results, a run allocates no memory.
// COTAN_NOT_FOUND: no such method. COTAN_INVALID_ARGUMENT: the number of arguments or results is wrong; an argument
// has a wrong dtype, rank or size (the text names it); it shares memory with a state that the method updates; a
// tensor occurs twice among the results; a value is invalid (an index out of range, a failed assertion).
// COTAN_OUT_OF_RANGE: a dynamic dimension is outside its range. COTAN_FAILED_PRECONDITION: a backward without a run
// of its forward before it. COTAN_RESOURCE_EXHAUSTED: not enough memory. These leave all states unchanged; the
// elements of given results may be partly written. COTAN_INTERNAL: the device failed.
COTAN_API cotan_status cotan_session_run(cotan_session* session, const char* method, cotan_tensor* const* arguments,
                                         size_t num_arguments, cotan_tensor** results, size_t num_results);

// Runs a method as cotan_session_run() does and writes the time of each step of its plan, in nanoseconds. `*num_steps`
// is the room in `nanoseconds` before the call and the number of steps after it; if there are more, the first are
// written.
COTAN_API cotan_status cotan_session_run_timed(cotan_session* session, const char* method,
                                               cotan_tensor* const* arguments, size_t num_arguments,
                                               cotan_tensor** results, size_t num_results, int64_t* nanoseconds,
                                               size_t* num_steps);

// Waits until the work that calls queued on the device is done. A CPU queues none.
COTAN_API cotan_status cotan_session_synchronize(cotan_session* session);

// Returns a copy of the gradient of a parameter, by name or alias, that the last backward computed.
// COTAN_NOT_FOUND: no such parameter, or no method computes its gradient. COTAN_FAILED_PRECONDITION: no backward ran.
COTAN_API cotan_status cotan_session_gradient(cotan_session* session, const char* parameter, cotan_tensor** out);

// Return a row-major copy of a state, by name or alias, or set its value. COTAN_NOT_FOUND: no such state.
// COTAN_INVALID_ARGUMENT (set): the value has a wrong dtype or wrong sizes, or the state is a constant.
COTAN_API cotan_status cotan_session_get_state(cotan_session* session, const char* name, cotan_tensor** out);
COTAN_API cotan_status cotan_session_set_state(cotan_session* session, const char* name, const cotan_tensor* value);

// Return or set a hyperparameter of the optimizer ("lr", "weight_decay", ...) of parameter group `group`. It may
// change between runs. COTAN_NOT_FOUND: there is none; the text lists them. COTAN_OUT_OF_RANGE: its dtype cannot
// hold the value.
COTAN_API cotan_status cotan_session_get_hyperparameter(cotan_session* session, const char* name, int32_t group,
                                                        double* value);
COTAN_API cotan_status cotan_session_set_hyperparameter(cotan_session* session, const char* name, int32_t group,
                                                        double value);

// Return or set the state of the random generator: its seed, and its offset in blocks of four draws.
// COTAN_FAILED_PRECONDITION: the program draws no random numbers.
COTAN_API cotan_status cotan_session_get_rng(cotan_session* session, int64_t* seed, int64_t* offset);
COTAN_API cotan_status cotan_session_set_rng(cotan_session* session, int64_t seed, int64_t offset);

// Write the persistent states to a safetensors file, whole or not at all, or read them back. Training that continues
// from a loaded checkpoint gives the same bits. COTAN_NOT_FOUND, COTAN_PERMISSION_DENIED, COTAN_UNAVAILABLE,
// COTAN_RESOURCE_EXHAUSTED: the file cannot be read or written. COTAN_DATA_LOSS: it is damaged.
// COTAN_INVALID_ARGUMENT: it is not a checkpoint of this program; the text lists the differences.
COTAN_API cotan_status cotan_session_save_checkpoint(cotan_session* session, const char* path);
COTAN_API cotan_status cotan_session_load_checkpoint(cotan_session* session, const char* path);

// Memory and steps of a method's last plan.
typedef struct cotan_plan_summary {
  size_t struct_size;
  int64_t arena_bytes;  // memory for intermediate values, shared by all methods of the session
  int64_t peak_bytes;   // most bytes of it in use at one step
  int64_t num_steps;
  int64_t views;  // views that became geometry
  int64_t view_copies;
  int64_t outputs_in_place;  // results computed in their tensors
  int64_t output_copies;
  int64_t updates_in_place;  // states computed in their own memory
  int64_t update_copies;
  int64_t inputs_in_place;  // new contents of arguments computed in their own memory
  int64_t input_copies;
  int64_t inputs_overwritten;  // ops that write over a value that is not needed any more
  // Not in the first version of the struct.
  int64_t host_bytes;  // of values that are kept in host memory beside the arena of a device; 0 on a CPU
} cotan_plan_summary;
#define COTAN_PLAN_SUMMARY_INIT \
  { sizeof(cotan_plan_summary), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }

// Writes the memory and steps of the method's last plan to `*summary`. COTAN_NOT_FOUND: no such method.
// COTAN_FAILED_PRECONDITION: it has not run yet, so its sizes are unknown.
COTAN_API cotan_status cotan_session_plan_summary(cotan_session* session, const char* method,
                                                  cotan_plan_summary* summary);
// Returns the summary as a text of several lines, followed by the names of the steps, one a line. The caller frees it
// with cotan_string_free(). Errors as cotan_session_plan_summary().
COTAN_API cotan_status cotan_session_plan_text(cotan_session* session, const char* method, char** out);
// Frees a text that a function returned by `char** out`; NULL is allowed.
COTAN_API void cotan_string_free(char* text);

// Write the bytes of all states except constants, of the memory for intermediate values, and the number of plans made
// so far for all methods.
COTAN_API cotan_status cotan_session_state_bytes(cotan_session* session, int64_t* bytes);
COTAN_API cotan_status cotan_session_arena_bytes(cotan_session* session, int64_t* bytes);
COTAN_API cotan_status cotan_session_num_plans_made(cotan_session* session, int64_t* count);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // COTAN_H_
