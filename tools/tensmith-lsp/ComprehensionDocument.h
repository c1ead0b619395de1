// A text of tensor comprehensions in an editor: what is wrong with it, ranges and sizes under the
// cursor, names to go on with, and the layout.
#pragma once

#include "compiler/nest/ScheduleCheck.h"
#include "reference/comprehension/Analysis.h"
#include "tools/tensmith-lsp/Document.h"

namespace tensmith::lsp {

class ComprehensionDocument final : public Document {
public:
  /// The context has the graph's dialects.
  ComprehensionDocument(const std::string &text, mlir::MLIRContext &context);

  Json diagnostics() const override;
  Json completion(uint32_t line, uint32_t character) override;
  Json formatting() const override;

private:
  std::string describeWord(const Token &token) override;
  const comprehension::Function *functionAt(Place place) const;
  bool isInSchedule(uint32_t line) const;

  std::vector<Message> messages_;
  std::vector<Comment> comments_;
  comprehension::Module module_;
  std::vector<comprehension::Function> functions_; // of the definitions, as far as they are right
  std::vector<std::pair<comprehension::ScheduleLine, std::string>> refused_; // with the reason
};

} // namespace tensmith::lsp
