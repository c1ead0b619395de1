/* Makes a graph operation by operation, and compiles it: for languages and libraries that have a
 * program in a form of their own. Links libtensmith_compiler. Conventions are those of tensmith.h.
 *
 * Each operation is typed as it is made, so that whoever makes it can ask for the sizes of its
 * results, and a mistake is told where it is made, with the caller's own words for the place:
 *
 *     ts_builder *builder;
 *     ts_value x, w, y;
 *     const char *dims[] = {"batch", "784"};
 *     ts_value_type type = {TS_F32, 2, dims};
 *     ts_builder_create(&builder);
 *     ts_builder_input(builder, "x", &type, &x);
 *     ts_builder_constant(builder, "fc.weight", weights, &w);
 *     ts_value operands[] = {x, w};
 *     ts_builder_op(builder, "matmul", operands, 2, NULL, 0, NULL, "model.py:12", &y, 1, NULL);
 *     ts_builder_output(builder, "y", y);
 *     ts_builder_compile(builder, NULL, "model.so");
 *
 * A builder is used by one thread at a time. After a failure it is as it was before the call. */
#ifndef TENSMITH_BUILDER_H
#define TENSMITH_BUILDER_H

#include <tensmith/compiler.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ts_builder ts_builder;

/* A value of one builder, by its number; 0 is no value, which stands for an operand that is left
 * out. */
typedef uint32_t ts_value;
#define TS_NO_VALUE 0

/* The type of a tensor. A dimension is a text: a number, the name of a size ("batch"), or an
 * expression over names as types show it: + - * / (rounded down) %, parentheses, ceil(a/b). Equal
 * names are equal sizes; a name is of letters, digits, _ and dots, and begins with no digit. A text
 * has at most 4096 characters, and parentheses in it are nested at most 100 deep. */
typedef struct ts_value_type {
  ts_type type;
  int64_t rank; /* -1 where it is unknown; then there are no dimensions */
  const char *const *dims;
} ts_value_type;

typedef enum ts_attribute_kind {
  TS_ATTRIBUTE_BOOL = 0, /* `integer`, 0 or 1 */
  TS_ATTRIBUTE_INT = 1,
  TS_ATTRIBUTE_FLOAT = 2, /* `real` */
  TS_ATTRIBUTE_TEXT = 3,
  TS_ATTRIBUTE_INTS = 4,   /* `integers`, `count` of them */
  TS_ATTRIBUTE_FLOATS = 5, /* `reals`, `count` of them */
  TS_ATTRIBUTE_TYPE = 6,   /* an element type */
  TS_ATTRIBUTE_TENSOR = 7  /* retained */
} ts_attribute_kind;

/* What else an operator is told; of the fields after `kind` those that it names are read. */
typedef struct ts_attribute {
  const char *name;
  ts_attribute_kind kind;
  int64_t integer;
  double real;
  const char *text;
  const int64_t *integers;
  const double *reals;
  size_t count;
  ts_type type;
  ts_tensor *tensor;
} ts_attribute;

/* A builder of an empty graph. */
TS_API ts_status *ts_builder_create(ts_builder **out);
TS_API void ts_builder_free(ts_builder *builder);

/* An input of the graph, after those before it. InvalidArgument where the name is taken, or a
 * dimension no size. Not within a region. */
TS_API ts_status *ts_builder_input(ts_builder *builder, const char *name, const ts_value_type *type,
                                   ts_value *out);
/* A tensor that is part of the graph; it is retained, not copied, and must not change any more.
 * `name` (may be null) is what a compilation knows it by that trains it or takes it as an input
 * (ts_compile_options: `overridable`, `trainable`, `derivatives`). Names are distinct, and none is
 * an input's. */
TS_API ts_status *ts_builder_constant(ts_builder *builder, const char *name, ts_tensor *tensor,
                                      ts_value *out);
/* An operator of the graph dialect by its name ("matmul", without "graph."); operators of plug-ins
 * have their dialect's name before ("example.soft_threshold"). Operands are in the order of the
 * operator's record (compiler/graph, the files ...Ops.td); those that may be left out are
 * TS_NO_VALUE, and needn't be there at the end.
 *
 * `result`: of operators whose result is of a given type: reshape, broadcast, slice, iota,
 * random_uniform and random_normal; null for all others.
 * `location`: the place in the caller's program, for messages; may be null.
 * `results` takes the first `capacity` of the results, `count` (may be null) their number.
 *
 * InvalidArgument, with the location, where there is no such operator, an attribute is missing,
 * unknown or of another kind, or operands don't fit. Operators with regions have functions of their
 * own. */
TS_API ts_status *ts_builder_op(ts_builder *builder, const char *name, const ts_value *operands,
                                size_t operand_count, const ts_attribute *attributes,
                                size_t attribute_count, const ts_value_type *result,
                                const char *location, ts_value *results, size_t capacity,
                                size_t *count);

/* An `if`: what is made next is its first region, until ts_builder_yield gives the results of that;
 * then its second, until the same. Both have access to the values around, and give as many values,
 * of the same element types. The second ts_builder_yield ends it, and gives its results.
 * `condition` is a boolean scalar. */
TS_API ts_status *ts_builder_begin_if(ts_builder *builder, ts_value condition,
                                      const char *location);
/* A `loop`, `trip_count` times at most (an i64 scalar, or TS_NO_VALUE) while the condition (a
 * boolean scalar, or TS_NO_VALUE) holds. What is made next is its body; `arguments` takes
 * 2 + `carried_count` values: the number of the iteration, the condition, and the carried ones,
 * which keep their types from one iteration to the next. Its ts_builder_yield gives the condition,
 * the carried values, and what is stacked over the iterations; the results are the last carried
 * values and the stacks. */
TS_API ts_status *ts_builder_begin_loop(ts_builder *builder, ts_value trip_count,
                                        ts_value condition, const ts_value *carried,
                                        size_t carried_count, const char *location,
                                        ts_value *arguments);
/* Ends a region; see above. `results` takes the first `capacity` results of the operator where this
 * ends it, and `count` (may be null) their number, 0 where it doesn't. A region that fails to end
 * is still open. */
TS_API ts_status *ts_builder_yield(ts_builder *builder, const ts_value *values, size_t value_count,
                                   ts_value *results, size_t capacity, size_t *count);

/* Derivatives of values that are there, as more of the graph. `mode`: TS_GRADIENT: of one value, by
 * each of `by`; `changes` is its cotangent, of its type, or TS_NO_VALUE where it is one number, for
 * 1; `results` takes as many as `by`. TS_TANGENT: of each of `of`; `changes` are the tangents, one
 * for each of `by`, of its type; `results` takes as many as `of`. Values of `by` are distinct, and
 * may lie anywhere in the graph: they are taken as independent. What doesn't depend on them has
 * zeros. Within a region they are of what the region computes: what was made outside of it is
 * constant, but for the values of `by`. Unsupported where an operator has no derivative, by its
 * name; nothing was added then. */
TS_API ts_status *ts_builder_differentiate(ts_builder *builder, int mode, const ts_value *of,
                                           size_t of_count, const ts_value *by, size_t by_count,
                                           const ts_value *changes, ts_value *results);

/* An output of the graph, after those before it. A value may be several outputs, and an input one.
 * Not within a region. */
TS_API ts_status *ts_builder_output(ts_builder *builder, const char *name, ts_value value);
/* The output is what the input becomes: a state of the module (ts_module_state). A run that fails
 * leaves it as it was. InvalidArgument where there is no such input or output, they are not of one
 * type of fixed sizes, or one of them is another state's. Such a graph is not trained. */
TS_API ts_status *ts_builder_state(ts_builder *builder, const char *input, const char *output);

/* The type of a value. The texts are the builder's until its next call. InvalidArgument where the
 * value is no tensor. */
TS_API ts_status *ts_builder_type(ts_builder *builder, ts_value value, ts_value_type *out);
/* The elements of a small integer tensor that are known already, as sizes are: texts as those of
 * dimensions, row-major; the builder's until its next call. `count` is 0 and `texts` null where
 * they aren't known. */
TS_API ts_status *ts_builder_contents(ts_builder *builder, ts_value value,
                                      const char *const **texts, size_t *count);

/* The graph so far as the dialect's text, which ts_compile_bytes takes; freed by ts_bytes_free.
 * `locations`: not 0: with the places that operators were given. */
TS_API ts_status *ts_builder_text(ts_builder *builder, int locations, char **text);

/* Compiles the graph as it is, as ts_compile_file does a model's file; `shapes` and `keep` are
 * refused. The builder can go on afterwards. InvalidArgument where there is no output, or a region
 * is open. */
TS_API ts_status *ts_builder_compile(ts_builder *builder, const ts_compile_options *options,
                                     const char *out_path);
/* The same to bytes, freed by ts_bytes_free. */
TS_API ts_status *ts_builder_compile_bytes(ts_builder *builder, const ts_compile_options *options,
                                           void **module, size_t *module_size);

#ifdef __cplusplus
}
#endif
#endif
