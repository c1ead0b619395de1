/* Tensmith's compiler: a model in, a module out. Links libtensmith_compiler, which needs LLVM and
 * MLIR. Conventions are those of tensmith.h. */
#ifndef TENSMITH_COMPILER_H
#define TENSMITH_COMPILER_H

#include <tensmith/tensmith.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What a compilation may do to floating-point arithmetic. */
typedef enum ts_precision {
  TS_PRECISION_FAST = 0,  /* the default: algorithms with fewer operations, such as Winograd's
                           * convolution, whose rounding differs; all in the model's own types */
  TS_PRECISION_EXACT = 1, /* the products and sums of the model's own operators */
  TS_PRECISION_BF16 = 2,  /* as fast; and operands of products with weights are rounded to bf16,
                           * with sums in f32, where that is faster on the machine. Of a step of
                           * training: operands of all products, on any machine; weights, their
                           * gradients and updates, norms, sums and losses stay f32 */
  TS_PRECISION_F16 = 3 /* of a step of training alone: the same in f16, with a loss that is scaled
                        * as far as gradients allow: one more state, "loss_scale" */
} ts_precision;

typedef enum ts_derivative_mode {
  TS_GRADIENT = 0, /* of one output, by inputs: results "gradient.<input>" */
  TS_TANGENT = 1   /* of outputs along inputs, each of which takes "tangent.<input>" as one more
                    * input: results "tangent.<output>" */
} ts_derivative_mode;

/* A derivative that is computed with the model, its results after the model's own. */
typedef struct ts_derivative {
  ts_derivative_mode mode;
  const char *const
      *of; /* outputs; of a gradient exactly one, of tangents none for all of floats */
  size_t of_count;
  const char *const *by; /* inputs; an initialiser of that name becomes an input */
  size_t by_count;
  int takes_cotangent; /* of a gradient, not 0: "cotangent.<output>" is one more input, as it always
                        * is of outputs that are no single number */
} ts_derivative;

/* A model is compiled to one step of its training. Its inputs are the model's, "target" where the
 * loss is a built-in one, and states; its outputs "loss", "correct" (how many answers are right, of
 * cross_entropy), those of the model that are asked for, and the states' next values. States
 * (ts_module_state) are the parameters, running statistics of batch normalisations, the optimiser's
 * slots, averages ("ema.<parameter>") and the count of steps, "step". Batch normalisation takes the
 * batch's statistics and dropout drops; for evaluation compile the model without this and with the
 * parameters `overridable`. */
typedef struct ts_training_options {
  size_t size;
  /* "cross_entropy" (null): -log softmax(scores)[target], of scores [samples, classes, ...], the
   * mean over targets (i64) that are not negative; "mean_squared_error"; or an output of one
   * element. */
  const char *loss;
  const char *of; /* the output that a built-in loss is taken of; null: the first */
  /* A name, or the path of a program of the language (.tsm). Null: sgd. Known are adagrad, adam,
   * adamw, lamb, momentum, nesterov, rescaled, rescaled_rms, rmsprop and sgd. A program has a
   * function update(parameter, gradient, <slots>, learning_rate, step), which gives the new
   * parameter and slots. */
  const char *optimiser;
  /* The learning rate by steps: constant (null), warmup, cosine, step, or a program with a function
   * rate(step). */
  const char *schedule;
  /* Constants at the top of those programs, as learning_rate, momentum, beta1, warmup, by name. */
  const char *const *setting_names;
  const double *setting_values;
  size_t setting_count;
  double clip_norm;    /* the largest length of all gradients together; 0: any */
  double weight_decay; /* 0: the optimiser's own, if it has one (0.01 of adamw and lamb); of others,
                        * times the parameter, a part of the gradient */
  double ema_decay;    /* of averages over the steps; 0: none are kept */
  /* Names of initialisers to train, with "*" for any characters; null: all of floats that the loss
   * depends on and that have dimensions. */
  const char *const *trainable;
  size_t trainable_count;
  const char *const *outputs; /* of the model that the step gives too */
  size_t output_count;
  /* Not 0: the part of a step that each of several processes does before their gradients are
   * summed. Outputs are "loss", "correct", those that are asked for, and "gradient.<parameter>" in
   * the order in which they are computed. Parameters are states that are only read (TS_NO_OUTPUT),
   * and so are two more: "process" (i64), the number of the process, whose samples are that part of
   * the batch of all, as dropout draws for them; and "share" (f32), which the loss is multiplied
   * by, so that losses and gradients of all add up. ts_compile_update makes the rest. An optimiser
   * that is told of layers updates them in this module, and gives no gradients. What has to be of
   * all processes in the middle of it (statistics of batches, that optimiser's gradients) is asked
   * of libtensmith_mpi.so, which sums over the processes of `tensmith train`, and knows one alone
   * elsewhere. */
  int gradients_alone;
  /* What a program (.tsm) draws the first values of its parameters by. */
  uint64_t seed;
  int no_weight_decay; /* not 0: none, of an optimiser that has its own, too */
} ts_training_options;

/* A tensor that ts_compile_update's module updates, of floats. */
typedef struct ts_updated {
  const char *name;
  ts_type type;
  const int64_t *shape;
  size_t rank;
  /* Not 0: the tensor is shared out as one vector, of which each process updates so many elements,
   * the last ones filled up; the module's inputs and states are of that size. */
  int64_t part;
} ts_updated;

/* On what a policy's bound is checked. */
typedef enum ts_calibration {
  TS_CALIBRATE_NONE = 0,   /* layers alone, on random numbers */
  TS_CALIBRATE_RANDOM = 1, /* the model, on random inputs; sizes must be fixed */
  TS_CALIBRATE_GIVEN = 2   /* the model, on inputs that are given */
} ts_calibration;

typedef struct ts_compile_options {
  size_t size;
  /* Dimensions by input or symbol: "image=1x3x224x224", "batch=4" (fixes the symbol). */
  const char *const *shapes;
  size_t shape_count;
  const char
      *target; /* "host" (null), or an LLVM CPU name with features: "x86-64-v3", "skylake-avx512" */
  const char *cache_dir;   /* null: $TENSMITH_CACHE, or the user's cache folder; "": no cache */
  const char *dump_ir_dir; /* null: none; each stage is written there, numbered, and what each
                              kernel becomes, which is then not taken from the cache */
  int threads;             /* of the compilation; 0: as many as CPUs */
  int optimization; /* 0: no fusion, every operator a kernel by itself, and programs as they are
                       written; 1 (the default): fused, and programs partially evaluated */
  int evaluate_by_reference; /* not 0: no kernels, every operator by its reference evaluation */
  /* Called now and then from the compiling thread: what is being done, and how much of it (0 to 1).
   * May be null. */
  void (*progress)(void *context, const char *stage, double fraction);
  void *progress_context;
  /* Told of what the compilation goes on without, as a cache that can't be written. From any
   * thread, one call at a time; may be null. */
  void (*warn)(void *context, const char *message);
  void *warn_context;
  ts_precision precision;
  /* Tensors on the way that become outputs too, after the model's own, in the order of the program:
   * by their names in the model, or "*" for all of the main graph. What is kept can't be fused
   * away. */
  const char *const *keep;
  size_t keep_count;
  /* Not 0: the graph is evaluated by the reference after each rewrite, on inputs that are made up,
   * and the compilation fails with the name of the rewrite that changes a result. Slow. */
  int verify_each_pass;
  /* Null: none. Where the compilation fails or crashes by a fault of its own, the graph as it came
   * in is written there as text, with what was asked of it. Installs signal handlers meanwhile. */
  const char *reproducer;
  /* Initialisers that shall be inputs of the module, and inputs of the model that have some; all
   * others are constants. */
  const char *const *overridable;
  size_t overridable_count;
  /* Limits on what a model may ask of the compiler, each 0 for its default; beyond them a
   * compilation gives TS_RESOURCE_EXHAUSTED. What LLVM takes for a kernel's code is not counted: it
   * goes by the code's size, and LLVM ends the process where it can't have memory. */
  int64_t memory_limit; /* bytes of tensors at a time; 0: the memory of the machine */
  double time_limit;    /* seconds; looked at between the steps; 0: an hour; negative: none */
  int64_t node_limit;   /* nodes after functions are expanded; 0: a million */
  int nesting_limit;    /* subgraphs within subgraphs, functions within functions; 0: 64 */
  /* One after the other: the next may be of what the one before has added, as the tangent of a
   * gradient, which is a product with the Hessian. */
  const ts_derivative *derivatives;
  size_t derivative_count;
  const ts_training_options *training; /* null: no training */
  /* Null: none. A JSON file of choices for kernels, {"schedules": [{"kernel": ..., choice: ...},
   * ...]}; a module's description has those that it was made by, in its metadata, in the same form.
   * What is not in it is chosen as ever; `warn` is told of entries that fit nothing. */
  const char *schedules;
  /* Bytes that a run of the module may hold: inputs, outputs, constants and what is computed on the
   * way; 0: any. Values of the way to the first output are then computed again for what follows,
   * instead of being kept, as far as that is needed; results are the same bits. All sizes must be
   * fixed. Where the budget can't be met: TS_RESOURCE_EXHAUSTED, with the least that can. */
  int64_t memory_budget;
  /* What is computed again: "cost" (null), the least work that meets the budget; "segments", parts
   * of the way between which all is kept, once; "recursive", such parts within parts. The latter
   * two take as little as they can where there is no budget; gradients of recursion by tail calls,
   * as often as the data say, then keep O(sqrt(n)) and O(log(n)) of n iterations. */
  const char *recomputation;
  /* Who does products, convolutions, softmax and layer normalisation: "generated" (null), or a list
   * of libraries, "onednn,openblas", of which the first that takes an operator does it, or
   * "measured", whoever is fastest on this machine. A module that calls a library needs
   * libtensmith_onednn.so, or its own, beside the runtime's. Choices of `schedules` come first.
   */
  const char *libraries;
  /* Null: kernels are the host's. The name of a device that runs them, with memory of its own:
   * "separate" is the host's processor with memory that the host can't touch, to see what is copied
   * (ts_session_copies). Several with commas between, "separate:0,separate:1", get a part of the
   * kernels each. The library libtensmith_<kind>.so must be beside the runtime's. */
  const char *device;
  /* Not 0: a model that was exported for training is compiled for evaluation. Dropout is its
   * operand and batch normalisation takes its running statistics, whatever form the model has them
   * in. Not together with `training`. */
  int for_evaluation;
  /* Null: none. The caller's own words for what the module is made of, which its description has in
   * its metadata as "made_of". */
  const char *made_of;
  /* Whether the model is evaluated in double precision on some inputs. Layers are then tried on
   * what they get there, and one that errs by more than the policy allows falls back; the module's
   * outputs are compared, and where they err by more than 1e-4 of the largest (bf16: 1/16), more
   * layers fall back until they don't. What was found is in the module's metadata as "calibration";
   * `warn` is told of what is tried again, and of a bound that can't be met. The module is run, so
   * it must be for this machine. */
  ts_calibration calibration;
  const char *const
      *calibration_names; /* of inputs, all of which must be given; others are ignored */
  ts_tensor *const *calibration_values;
  size_t calibration_count;
  const char *calibration_source; /* the file that they are of, for messages; may be null */
  /* Told, from the compiling thread, of each file beside the model that it is made of: external
   * data, imports, tensors that a program loads. May be null. */
  void (*read)(void *context, const char *path);
  void *read_context;
  /* Of ts_evaluate_file alone: what random operators without a seed of their own draw by. Null:
   * other numbers each time. For runs of a module see ts_session_options. */
  const uint64_t *seed;
  /* Not 0: each access of a kernel to memory is checked, and a run fails by one outside of the
   * kernel's operands, which is a fault of the compiler. Slow. */
  int check_bounds;
  /* Of ts_compile_bytes and a program of the language: the folder that it stands in, whose files it
   * may import and load. Null: it has none. */
  const char *folder;
  /* Not 0: expressions are rewritten by rules of real numbers, too, which change roundings, and
   * results where something overflows, is infinite or no number (docs/simplification.md). Not
   * together with the precision exact. */
  int fast_math;
  /* Whether the module tells debuggers and profilers which node, of which line of the model's file,
   * a kernel is of (docs/debugging.md): 1, the default; 0: not. */
  int debug_info;
  /* Of a text of comprehensions (.tc): the one to compile. Null: the text has one alone. */
  const char *function;
  /* What is rounded to 16 bits under the precisions bf16 and f16, in place of operators' own rules:
   * "NAMES=always", "NAMES=follow" or "NAMES=never", of operators ("matmul"), nodes or their types
   * ("Gemm"); "*" stands for any characters, and the last one that matches holds. See "Mixed
   * precision" in docs/training.md. */
  const char *const *casts;
  size_t cast_count;
  /* Null: none. What tuning has found for a kernel or an operator, asked for by its key and what
   * that depends on beside the graph: an entry's choices as schedule files have them, as the
   * members of a JSON object ("\"tile_rows\":6,\"grain\":2"); null or "" where nothing is known.
   * The text must stay until the next call. What `schedules` says comes first. */
  const char *(*tuned)(void *context, const char *machine, const char *key);
  void *tuned_context;
  /* What `tuned` answers by, as a word that changes with the answers: for caches of modules. */
  const char *tuned_state;
  /* Not 0, with `device`: the module's inputs and outputs lie in the (first) device's memory, as
   * ts_tensor_create_on makes them, but for strings and what is no tensor. Nothing of them is
   * copied then but what operators without a kernel read. */
  int resident;
} ts_compile_options;

/* Loads a plug-in, a shared library that adds operators, rewrites, templates, instructions or
 * targets (docs/plugins.md). Compilations that begin afterwards have them, and so has the runtime
 * that this library uses. It stays loaded; nothing happens where it was loaded before. Errors:
 * TS_IO_ERROR where the file can't be read; TS_INVALID_ARGUMENT where it is no plug-in, was built
 * for another version, or has a name that is taken. Nothing is added then. */
TS_API ts_status *ts_load_plugin(const char *path);

/* Sets the defaults and `size`. */
TS_API void ts_compile_options_init(ts_compile_options *options);

/* Compiles the model at `path` (ONNX, or the graph dialect's text, by content) and writes the
 * module to `out_path`, atomically. */
TS_API ts_status *ts_compile_file(const char *path, const ts_compile_options *options,
                                  const char *out_path);
/* From memory; `name` stands for the file in messages, and ends in .tsm where it is a program,
 * in .tc where it is a text of comprehensions. The
 * module's bytes are freed with ts_bytes_free. External data is refused. */
TS_API ts_status *ts_compile_bytes(const void *model, size_t size, const char *name,
                                   const ts_compile_options *options, void **module,
                                   size_t *module_size);
TS_API void ts_bytes_free(void *bytes);

/* The part of a step of training that follows the gradients, as a module: optimiser, schedule,
 * decay and averages as `options->training` says, without clipping. Inputs are
 * "gradient.<name>" of each tensor, "scale" (f32), which all gradients are multiplied by first, and
 * states: the tensors (from zeros), the optimiser's slots, averages, and "step". With the precision
 * f16 the states "loss_scale" and "loss_scale_steps" are moved here, and nothing else where "scale"
 * is not finite. Of tensors that are shared out sums over the elements are asked of
 * libtensmith_mpi.so, and "process" (i64) is one more input, the process's number. What is not
 * shared out is whole where `processes` is 1; else a part of several parameters one after the
 * other, and an optimiser that reads other elements of a parameter than the one that it updates
 * (lamb) is refused as unsupported. */
TS_API ts_status *ts_compile_update(const ts_updated *tensors, size_t count, int64_t processes,
                                    const ts_compile_options *options, const char *out_path);
/* The reference evaluator on a model file: inputs in the order of the model's. Each output, kept
 * tensors included, goes to `observe` (may be null) when it is computed, in the order of the
 * program: under its name, with the place in the model that it comes from. A program of the
 * language
 * (.tsm) is evaluated as it is written, and its outputs alone are observed. `outputs` takes the
 * first `output_count` of them (may be 0) in the model's order.
 * After a failure all of those are null. */
TS_API ts_status *ts_evaluate_file(const char *path, const ts_compile_options *options,
                                   ts_tensor *const *inputs, size_t input_count,
                                   ts_tensor **outputs, size_t output_count,
                                   void (*observe)(void *context, const char *name,
                                                   const char *source, ts_tensor *tensor),
                                   void *context);
/* The model's signature and operators, without compiling it, as JSON. */
TS_API ts_status *ts_describe_model(const char *path, const ts_compile_options *options,
                                    char **json);
/* Why the kernels are what they are, as JSON, freed with ts_bytes_free: {"kernels": [{"kernel",
 * "nodes", "by" (a template with what was chosen, or a library), "operands": [{"from", "why"}]}],
 * "by_reference": [{"operator", "nodes", "why"}], "decisions": [...] (with what was refused, as in
 * a module's schedules)}. "why" says why what computes an operand is no part of the kernel. */
TS_API ts_status *ts_explain(const char *path, const ts_compile_options *options, char **json);
/* What may be chosen of each kernel that the model is compiled to, and decided for each operator:
 * all that `schedules` may ask for. A list as JSON, freed with ts_bytes_free: [{"key", "kernel",
 * "template" (of kernels alone), "points", "sizes" (open ones), "choices": [{"choice", "values",
 * "where"}]}]. */
TS_API ts_status *ts_describe_spaces(const char *path, const ts_compile_options *options,
                                     char **json);
/* A model's kernels, each of which can be made by any of its points and timed: what tuning works
 * on. One thread at a time may use it. */
typedef struct ts_tuning ts_tuning;

/* Reads the model and finds its kernels, as a compilation with these options would make them.
 * `tuned` and `schedules` decide what the kernels are, and no more: a candidate has the choices
 * that it is given, and estimates for the rest. */
TS_API ts_status *ts_tuning_open(const char *path, const ts_compile_options *options,
                                 ts_tuning **tuning);
TS_API void ts_tuning_free(ts_tuning *tuning);
/* {"machine" (what keys depend on), "kernels": [{"key", "kernel", "nodes", "template", "points",
 * "choices" (as ts_describe_spaces), "uses" (in the model), "flops", "bytes" (of a call),
 * "estimated" (the choices that estimates make), "untunable" (why it can't be timed by itself; "":
 * it can)}], "decisions": [{"key", "kernel", "nodes", "choices", "estimated"}] (of operators, which
 * the whole model's time says; not who does one), "most_error" (what such a choice may tell as its
 * error)}, as JSON, freed with ts_bytes_free. */
TS_API ts_status *ts_tuning_describe(const ts_tuning *tuning, char **json);
/* Names and meanings of features, [{"name", "meaning"}], in their order. */
TS_API ts_status *ts_tuning_feature_names(char **json);
/* Numbers that say what the kernel's loop program is like by these choices (the members of a JSON
 * object, as in schedule files), before it is machine code: [number, ...]. */
TS_API ts_status *ts_tuning_features(ts_tuning *tuning, const char *key, const char *choices,
                                     char **json);
/* Its tree of loops, likewise: [[parent, number, ...], ...]; a parent's number is less than what is
 * in it, and the first, whose parent is -1, is what stands outside of all loops. */
TS_API ts_status *ts_tuning_loops(ts_tuning *tuning, const char *key, const char *choices,
                                  char **json);
/* Makes the kernel by these choices. `candidate` is its number, until ts_tuning_drop. */
TS_API ts_status *ts_tuning_build(ts_tuning *tuning, const char *key, const char *choices,
                                  size_t *candidate);
TS_API void ts_tuning_drop(ts_tuning *tuning, size_t candidate);

typedef struct ts_tuning_run {
  size_t size;
  /* A program and its first arguments, started without a shell, which takes the words of
   * tensmith-run; null: tensmith-measure of this installation. */
  const char *const *command;
  size_t command_count;
  double limit_seconds;  /* of the process; 0: 30 */
  double repeat_seconds; /* of the runs that are counted, at least; 0: 0.05 */
  int threads;           /* 0: as many as CPUs */
} ts_tuning_run;

/* Runs the candidate once more in a process of its own: {"outcome" ("timed", "wrong", "refused",
 * "crashed", "timed out", "out of memory", "not started"), "seconds" (of the fastest run), "why"},
 * as JSON. Results are compared with the reference's, or with those of the kernel's first candidate
 * where that would take long. */
TS_API ts_status *ts_tuning_measure(ts_tuning *tuning, size_t candidate, const ts_tuning_run *run,
                                    char **json);
/* The same of the module at `path`, on inputs that the program makes up; nothing is compared. */
TS_API ts_status *ts_tuning_measure_module(const char *path, const ts_tuning_run *run, char **json);

/* What a model's file declares of itself, as JSON: its inputs and outputs with the types and shapes
 * that its author gave them, inputs with initialisers included, and its metadata. Of the file at
 * `path`, or of `bytes` where they are not null; `path` is then what messages call them. */
TS_API ts_status *ts_describe_interface(const char *path, const void *bytes, size_t size,
                                        char **json);
/* The ONNX model at `path` with other contents of initialisers, by name, whose types and shapes the
 * tensors must have: what training gives back, and so in the form for evaluation (dropout that
 * doesn't drop, batch normalisation by running statistics). What lay in files beside the model is
 * within its bytes then, which are freed with ts_bytes_free. Of a program (.tsm) the text with all
 * that it imports, where each of those tensors is loaded from the file weights/NAME.npy beside it.
 */
TS_API ts_status *ts_replace_initialisers(const char *path, const char *const *names,
                                          ts_tensor *const *tensors, size_t count, void **model,
                                          size_t *model_size);
/* The model at `path` as ONNX (opset 21): a program of the language (.tsm) whose recursion sizes
 * decide, or a graph's text. Of `options`, which may be null, sizes and limits count. Constants at
 * the top of a program that are named, as "first.0", have the values given, and are initialisers of
 * those names. What depends on no input is computed. Unsupported, with the operator and its place,
 * where ONNX has none that computes the same. The bytes are freed with ts_bytes_free. */
TS_API ts_status *ts_export_onnx(const char *path, const ts_compile_options *options,
                                 const char *const *names, ts_tensor *const *tensors, size_t count,
                                 void **model, size_t *model_size);
/* The ONNX model at `path` (a program of the language is exported first) with layers in few bits,
 * as ONNX with QuantizeLinear and DequantizeLinear, which other runtimes compute, too.
 * `settings`: a JSON object of docs/quantisation.md's settings; null: 8 bits. `samples`: by the
 * names of the model's inputs, arrays whose first dimension counts samples, on which the model is
 * run to see the ranges of activations; "labels": integers, the right answers. Of `options`, which
 * may be null, sizes, target, cache, limits, progress and warnings count. `report` (may be null):
 * what was done to each layer, and what the outputs lose by it, as JSON. Errors: what settings or
 * samples can't mean is an invalid argument. Both results are freed with ts_bytes_free. */
TS_API ts_status *ts_quantize_model(const char *path, const char *settings,
                                    const ts_compile_options *options, const char *const *names,
                                    ts_tensor *const *samples, size_t count, void **model,
                                    size_t *model_size, char **report);
/* A program of the language as text, in the language's one layout, with its comments; `name` stands
 * for the file in messages, and ends in .tc where the text is of comprehensions. The result is
 * freed as a description is. */
TS_API ts_status *ts_format_program(const char *program, size_t size, const char *name,
                                    char **formatted);
/* The comprehensions of a text (docs/comprehensions.md), as a JSON array: "name", "inputs" and
 * "results", each with "name", "type" and "dims", and "text", the definition in its one layout. The
 * JSON is freed with ts_string_free. TS_INVALID_MODEL, with line and column, where it is wrong. */
TS_API ts_status *ts_describe_comprehensions(const char *text, size_t size, const char *name,
                                             char **json);
/* The compiler itself, as JSON: "version", "llvm" (the version it was built with), "assertions"
 * (whether it checks itself) and "module_format" (of the modules that it writes). The text is freed
 * with ts_string_free. */
TS_API ts_status *ts_describe_compiler(char **json);
/* The machine that would be compiled for, as JSON: CPU, features, caches, threads; and, once it was
 * measured, "limits", else null: what it can do at most, in a second. */
TS_API ts_status *ts_describe_machine(char **json);

typedef struct ts_measure_options {
  size_t size;
  int again; /* not 0: though there are limits that were measured before */
  /* As in ts_compile_options. */
  void (*progress)(void *context, const char *stage, double fraction);
  void *progress_context;
  void (*warn)(void *context, const char *message);
  void *warn_context;
} ts_measure_options;

/* Measures the machine's limits, which takes some seconds, unless that was done before, and keeps
 * them in the user's cache folder, where later compilations find them: their estimates of cost
 * count with them, and a module says by which limits it was made. Warns where they can't be this
 * machine's, since something else had its CPUs meanwhile. Gives what ts_describe_machine gives.
 * `options` may be null. */
TS_API ts_status *ts_measure_machine(const ts_measure_options *options, char **json);

#ifdef __cplusplus
}
#endif
#endif
