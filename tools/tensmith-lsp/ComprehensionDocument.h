// A text of tensor comprehensions in an editor: what is wrong with it, ranges and sizes under the
// cursor, names to go on with, and the layout.
#pragma once

#include "reference/comprehension/Analysis.h"
#include "tools/tensmith-lsp/Document.h"

namespace tensmith::lsp {

class ComprehensionDocument final : public Document {
public:
  explicit ComprehensionDocument(const std::string &text);

  Json diagnostics() const override;
  Json completion() override;
  Json formatting() const override;

private:
  std::string describeWord(const Token &token) override;
  const comprehension::Function *functionAt(Place place) const;

  std::vector<Message> messages_;
  std::vector<Comment> comments_;
  comprehension::Module module_;
  std::vector<comprehension::Function> functions_; // of the definitions, as far as they are right
};

} // namespace tensmith::lsp
