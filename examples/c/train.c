// SPDX-License-Identifier: Apache-2.0

// Trains the convolutional network of examples/digits from C99: loads the compiled program, trains on patterns that it
// draws itself, saves a checkpoint and continues from it in a second session.
//
//   train digits.cotan [FOLDER]      FOLDER receives the checkpoint; the current folder if it is omitted
#include <cotan.h>
#include <stdio.h>
#include <string.h>

enum { kBatch = 64, kSide = 28, kPixels = kSide * kSide, kClasses = 10, kSteps = 40, kMean = 5 };

// A batch in memory of this program, and tensors over it.
typedef struct Batch {
  float pixels[kBatch * kPixels];
  int64_t labels[kBatch];
  cotan_tensor* images_tensor;
  cotan_tensor* labels_tensor;
} Batch;

static int Fail(const char* what) {
  fprintf(stderr, "train: %s: %s: %s\n", what, cotan_status_name(cotan_last_error_code()), cotan_last_error());
  return 0;
}

// Returns a number in [0, 1), by the generator of Knuth's MMIX.
static float Random(uint64_t* state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (float)(*state >> 40) / 16777216.0f;
}

// Draws a bright square per image on noise; its place is the label.
static void Draw(Batch* batch, uint64_t* random) {
  for (int i = 0; i < kBatch; ++i) {
    const int label = (int)(Random(random) * kClasses);
    float* image = batch->pixels + i * kPixels;
    batch->labels[i] = label;
    for (int p = 0; p < kPixels; ++p) image[p] = 0.5f * Random(random);
    for (int y = 0; y < 5; ++y) {
      for (int x = 0; x < 5; ++x) image[(label / 5 * 14 + 4 + y) * kSide + label % 5 * 5 + 1 + x] += 1.0f;
    }
  }
}

// Makes the tensors of a batch, which use its memory: the next Draw() changes their elements.
static int Borrow(Batch* batch) {
  const int64_t sizes[4] = {kBatch, 1, kSide, kSide};
  if (cotan_tensor_borrow(COTAN_F32, 4, sizes, NULL, batch->pixels, sizeof(batch->pixels), NULL, NULL,
                          &batch->images_tensor) != COTAN_OK) {
    return Fail("images");
  }
  if (cotan_tensor_borrow(COTAN_I64, 1, sizes, NULL, batch->labels, sizeof(batch->labels), NULL, NULL,
                          &batch->labels_tensor) != COTAN_OK) {
    return Fail("labels");
  }
  return 1;
}

// Trains `steps` steps and adds the losses of the first and the last kMean of them.
static int Train(cotan_session* session, Batch* batch, uint64_t* random, int steps, float* first, float* last) {
  cotan_tensor* arguments[2] = {batch->images_tensor, batch->labels_tensor};
  cotan_tensor* results[2] = {NULL, NULL};  // logits, loss; made by the first step, written by the others
  int ok = 1;
  *first = *last = 0;
  for (int step = 0; ok && step < steps; ++step) {
    float loss = 0;
    Draw(batch, random);
    ok = cotan_session_run(session, "train_step", arguments, 2, results, 2) == COTAN_OK &&
         cotan_tensor_read(results[1], &loss, sizeof(loss)) == COTAN_OK;
    if (!ok) Fail("step");
    if (step < kMean) *first += loss / kMean;
    if (step >= steps - kMean) *last += loss / kMean;
  }
  cotan_tensor_free(results[0]);
  cotan_tensor_free(results[1]);
  return ok;
}

// Counts the images of a new batch whose label the session predicts.
static int Evaluate(cotan_session* session, Batch* batch, uint64_t random, int* correct) {
  cotan_tensor* arguments[1] = {batch->images_tensor};
  cotan_tensor* results[1] = {NULL};
  float logits[kBatch * kClasses];
  Draw(batch, &random);
  *correct = 0;
  const int ok = cotan_session_run(session, "eval", arguments, 1, results, 1) == COTAN_OK &&
                 cotan_tensor_read(results[0], logits, sizeof(logits)) == COTAN_OK;
  cotan_tensor_free(results[0]);
  if (!ok) return Fail("eval");
  for (int i = 0; i < kBatch; ++i) {
    int best = 0;
    for (int k = 1; k < kClasses; ++k) {
      if (logits[i * kClasses + k] > logits[i * kClasses + best]) best = k;
    }
    *correct += best == batch->labels[i];
  }
  return 1;
}

static int PrintPlan(cotan_session* session) {
  cotan_plan_summary summary = COTAN_PLAN_SUMMARY_INIT;
  if (cotan_session_plan_summary(session, "train_step", &summary) != COTAN_OK) return Fail("summary");
  printf("train_step: %lld steps, arena %lld bytes\n", (long long)summary.num_steps, (long long)summary.arena_bytes);
  return 1;
}

// Trains, saves, loads into `resumed` and trains both on: they must agree bit by bit.
static int Run(cotan_session* session, cotan_session* resumed, Batch* batch, const char* checkpoint) {
  uint64_t random = 1;
  float first, last, continued, again, unused;
  int correct = 0;
  double lr = 0;
  if (cotan_session_get_hyperparameter(session, "lr", 0, &lr) != COTAN_OK) return Fail("lr");
  if (!Train(session, batch, &random, kSteps, &first, &last)) return 0;
  printf("lr %g: loss %.4f -> %.4f\n", lr, first, last);
  if (!(last < 0.5f * first)) {
    fprintf(stderr, "train: the loss did not fall\n");
    return 0;
  }
  if (!PrintPlan(session)) return 0;
  if (cotan_session_save_checkpoint(session, checkpoint) != COTAN_OK) return Fail("save");
  if (cotan_session_load_checkpoint(resumed, checkpoint) != COTAN_OK) return Fail("load");
  uint64_t same = random;
  if (!Train(session, batch, &random, kMean, &continued, &unused)) return 0;
  if (!Train(resumed, batch, &same, kMean, &again, &unused)) return 0;
  if (memcmp(&continued, &again, sizeof(again)) != 0) {
    fprintf(stderr, "train: the resumed session differs: %.9g and %.9g\n", continued, again);
    return 0;
  }
  if (!Evaluate(resumed, batch, 2, &correct)) return 0;
  printf("%d of %d correct\n", correct, kBatch);
  return 1;
}

int main(int argc, char** argv) {
  static Batch batch;
  cotan_program* program = NULL;
  cotan_session* sessions[2] = {NULL, NULL};
  cotan_session_options options = COTAN_SESSION_OPTIONS_INIT;
  char checkpoint[4096];
  int ok = 1;
  if (argc < 2) {
    fprintf(stderr, "usage: train digits.cotan [FOLDER]\n");
    return 2;
  }
  if (cotan_check_abi(COTAN_ABI_VERSION) != COTAN_OK) {
    Fail("library");
    return 1;
  }
  printf("cotan %s\n", cotan_version());
  snprintf(checkpoint, sizeof(checkpoint), "%s/digits.safetensors", argc > 2 ? argv[2] : ".");
  options.threads = 1;
  ok = cotan_program_load(argv[1], &program) == COTAN_OK || Fail("program");
  for (int i = 0; i < 2 && ok; ++i) {
    ok = cotan_session_create(program, &options, &sessions[i]) == COTAN_OK || Fail("session");
  }
  ok = ok && Borrow(&batch) && Run(sessions[0], sessions[1], &batch, checkpoint);
  cotan_tensor_free(batch.images_tensor);
  cotan_tensor_free(batch.labels_tensor);
  cotan_session_free(sessions[0]);
  cotan_session_free(sessions[1]);
  cotan_program_free(program);
  return ok ? 0 : 1;
}
