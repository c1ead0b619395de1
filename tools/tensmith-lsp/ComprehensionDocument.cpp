// Read and analysed anew when it changes; see ComprehensionDocument.h.
#include "tools/tensmith-lsp/ComprehensionDocument.h"

#include "compiler/nest/TileIntrinsic.h"
#include "compiler/targets/Target.h"

namespace tensmith::lsp {

using namespace comprehension;

namespace {

std::string describe(const Tensor &tensor) {
  std::string dims;
  for (const ExprRef &extent : tensor.extents)
    dims += (dims.empty() ? "(" : ", ") + print(*extent);
  return typeName(tensor.type) + dims + (dims.empty() ? " " : ") ") + tensor.name;
}

bool isBefore(Place a, Place b) {
  return a.line < b.line || (a.line == b.line && a.column <= b.column);
}

/// What of this machine schedules may name, if there is one.
nest::TargetUnits hostUnits(const std::string &text) {
  bool isNamed = false;
  for (const char *word : {"tensorize", "cache_", "bind "})
    isNamed |= text.find(word) != std::string::npos;
  if (!isNamed)
    return {};
  auto host = targets::openTarget("host");
  if (!host)
    return {};
  return nest::targetUnits((*host)->machine(), text);
}

} // namespace

ComprehensionDocument::ComprehensionDocument(const std::string &text, mlir::MLIRContext &context)
    : Document(text, tokens(text)), module_(parse(text, messages_, &comments_)) {
  for (const Definition &definition : module_.definitions)
    functions_.push_back(analyse(module_, definition, messages_));
  if (messages_.empty())
    refused_ = nest::refusedLines(text, hostUnits(text), context);
}

Json ComprehensionDocument::diagnostics() const {
  Json result = Json::array();
  for (const Message &message : messages_)
    result.push_back(messageAt(message.place, message.text));
  for (const auto &[line, reason] : refused_) {
    result.push_back(messageAt(line.place, reason));
    result.back()["range"] = rangeOf(line.place, line.text.size());
  }
  return result;
}

bool ComprehensionDocument::isInSchedule(uint32_t line) const {
  for (const Comment &comment : comments_)
    if (comment.place.line == line + 1 && scheduleLine(comment))
      return true;
  return false;
}

Json ComprehensionDocument::formatting() const {
  std::vector<Message> messages;
  parse(text_, messages);
  return messages.empty() ? replacedBy(print(module_, comments_)) : Json();
}

Json ComprehensionDocument::completion(uint32_t line, uint32_t) {
  Json items = Json::array();
  if (isInSchedule(line)) {
    for (const nest::Primitive &each : nest::primitives())
      add(items, each.name, 14, std::string(each.form));
    return items;
  }
  for (const Function &function : functions_) {
    add(items, function.name, 3, "a comprehension");
    for (const Tensor &tensor : function.tensors)
      add(items, tensor.name, 6, describe(tensor));
  }
  for (std::string_view name : builtInNames())
    add(items, name, 3, "a function of " + counted(findBuiltIn(name)->arguments, "number"));
  for (const char *word : {"def", "where", "in", "exists", "min", "max", "float", "double", "half",
                           "int32", "int64", "uint8", "bool"})
    add(items, word, 14, "");
  return items;
}

const Function *ComprehensionDocument::functionAt(Place place) const {
  for (size_t i = 0; i < functions_.size(); ++i)
    if (isBefore(module_.definitions[i].place, place) &&
        isBefore(place, module_.definitions[i].end))
      return &functions_[i];
  return nullptr;
}

std::string ComprehensionDocument::describeWord(const Token &token) {
  if (const BuiltIn *builtIn = findBuiltIn(token.text))
    return token.text + ": a function of " + counted(builtIn->arguments, "number");
  const Function *function = functionAt(token.place);
  if (!function)
    return {};
  for (const Tensor &tensor : function->tensors)
    if (tensor.name == token.text && tensor.lows.size() == tensor.extents.size())
      return describe(tensor);
  for (const SizeVariable &size : function->sizes)
    if (size.name == token.text)
      return token.text + ": the size of " + function->tensors[size.tensor].name +
             " along dimension " + std::to_string(size.dim);
  const Statement *statement = nullptr; // the last one that begins before
  for (const Statement &one : function->statements)
    if (isBefore(one.place, token.place))
      statement = &one;
  for (size_t i = 0; statement && i < statement->indices.size(); ++i) {
    const Index &index = statement->indices[i];
    if (index.name == token.text)
      return index.name + " in " + print(*index.low) + ":" + print(*index.high) +
             (i >= statement->rank ? ", reduced" : "");
  }
  return {};
}

} // namespace tensmith::lsp
