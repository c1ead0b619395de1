/* Predictions in a loop, so that a call costs what it costs a program in C: bench/trees-predict
 * loads this as a library, and gives each system's function and what it is called with. Each gives
 * the seconds of the calling thread's CPU for all calls, which what else the machine does disturbs
 * least. The time of one clock call is in it, once. */
#include <stddef.h>
#include <stdint.h>
#include <time.h>

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* `at` goes round the `count` inputs that are given: of one row many others, since a walk that is
 * the same each time is foreseen by the processor, branch by branch. */
#define REPEATED(call)                                                                             \
  double begin = now();                                                                            \
  for (int64_t i = 0, at = 0; i < calls; ++i, at = at + 1 == count ? 0 : at + 1) {                 \
    call;                                                                                          \
  }                                                                                                \
  return now() - begin

/* ts_session_run */
double tensmith_calls(void *(*run)(void *, void *, size_t, void *, size_t), void *session,
                      void **inputs, void *outputs, int64_t count, int64_t calls) {
  REPEATED(if (run(session, inputs + at, 1, outputs, 1)) return -1);
}

/* XGBoosterPredictFromDense */
double xgboost_calls(int (*predict)(void *, const char *, const char *, void *, void *, void *,
                                    void *),
                     void *booster, const char *config, const char **inputs, int64_t count,
                     int64_t calls) {
  const uint64_t *shape;
  uint64_t rank;
  const float *result;
  REPEATED(if (predict(booster, inputs[at], config, NULL, &shape, &rank, &result)) return -1);
}

/* LGBM_BoosterPredictForMatSingleRowFast */
double lightgbm_row_calls(int (*predict)(void *, const void *, int64_t *, double *), void *config,
                          double *result, void **inputs, int64_t count, int64_t calls) {
  int64_t given;
  REPEATED(if (predict(config, inputs[at], &given, result)) return -1);
}

/* LGBM_BoosterPredictForMat */
double lightgbm_calls(int (*predict)(void *, const void *, int, int32_t, int32_t, int, int, int,
                                     int, const char *, int64_t *, double *),
                      void *booster, int32_t rows, int32_t features, const char *parameters,
                      double *result, void **inputs, int64_t count, int64_t calls) {
  int64_t given;
  REPEATED(if (predict(booster, inputs[at], 0, rows, features, 1, 0, 0, -1, parameters, &given,
                       result)) return -1);
}

/* predict of tl2cgen's code, for rows without missing values, whose entries are the floats. */
double treelite_calls(void (*predict)(const float *, int, float *), int64_t rows, int64_t features,
                      float *result, const float **inputs, int64_t count, int64_t calls) {
  REPEATED(for (int64_t row = 0; row < rows; ++row)
               predict(inputs[at] + row * features, 0, result + row));
}

/* lleaves' forest_root, which takes doubles. */
double lleaves_calls(void (*predict)(const double *, double *, int, int), int rows, double *result,
                     const double **inputs, int64_t count, int64_t calls) {
  REPEATED(predict(inputs[at], result, 0, rows));
}
