// Operators on strings, n-grams, and pictures in files.
#include "frontends/onnx/NodeImport.h"

namespace tensmith::onnx_import {
namespace {

std::string lowered(std::string text) { return StringRef(text).lower(); }

LogicalResult stringConcat(NodeImport &n) {
  return n.give({n("graph.string_concat", {n.input(0), n.input(1)})});
}

LogicalResult stringSplit(NodeImport &n) {
  return n.has(0) ? n.give(n.graph.create("graph.string_split", {n.input(0)},
                                          {n.text("delimiter", n.stringAttr("delimiter")),
                                           n.integer("maxsplit", n.intAttr("maxsplit", -1))}))
                  : n.error("operand 0 is missing");
}

LogicalResult stringNormalizer(NodeImport &n) {
  auto stopwords = n.stringsAttr("stopwords");
  Value words = n.none();
  if (int64_t count = int64_t(stopwords.size()))
    words = n.constant(HostTensor::ofStrings({count}, std::move(stopwords)));
  return n.give({n("graph.string_normalize", {n.input(0), words},
                   {n.text("change", lowered(n.stringAttr("case_change_action", "NONE"))),
                    n.boolean("case_sensitive", n.intAttr("is_case_sensitive"))})});
}

LogicalResult regexFullMatch(NodeImport &n) {
  return n.give(
      {n("graph.regex_full_match", {n.input(0)}, {n.text("pattern", n.stringAttr("pattern"))})});
}

LogicalResult tfIdfVectorizer(NodeImport &n) {
  auto texts = n.stringsAttr("pool_strings");
  Ints numbers = n.intsAttr("pool_int64s");
  if (!n.has(0) || texts.empty() == numbers.empty())
    return n.error("needs an operand, and one pool of pool_strings and pool_int64s");
  int64_t count = int64_t(texts.size());
  bool isText = !texts.empty();
  Value pool =
      isText ? n.constant(HostTensor::ofStrings({count}, std::move(texts))) : n.vector(numbers);
  Value x = isText ? n.input(0) : n.cast(n.input(0), n.builder.getI64Type());
  auto weights = n.floatsAttr("weights");
  return n.give({n("graph.count_ngrams", {x, pool},
                   {n.integers("starts", n.intsAttr("ngram_counts")),
                    n.integers("columns", n.intsAttr("ngram_indexes")),
                    n.integer("least", n.intAttr("min_gram_length", 1)),
                    n.integer("most", n.intAttr("max_gram_length", 1)),
                    n.integer("skips", n.intAttr("max_skip_count")),
                    n.text("mode", lowered(n.stringAttr("mode", "TF"))),
                    n.builder.getNamedAttr("weights", n.builder.getDenseF64ArrayAttr(weights))})});
}

LogicalResult imageDecoder(NodeImport &n) {
  return n.give({n("graph.decode_image", {n.input(0)},
                   {n.text("pixels", lowered(n.stringAttr("pixel_format", "RGB")))})});
}

constexpr Operator kOperators[] = {
    {"StringConcat", stringConcat},         {"StringSplit", stringSplit},
    {"StringNormalizer", stringNormalizer}, {"RegexFullMatch", regexFullMatch},
    {"TfIdfVectorizer", tfIdfVectorizer},   {"ImageDecoder", imageDecoder},
};

} // namespace

std::span<const Operator> textOperators() { return kOperators; }

} // namespace tensmith::onnx_import
