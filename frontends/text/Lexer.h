// From characters to tokens.
#pragma once

#include "frontends/text/Ast.h"

namespace tensmith::text {

using tensmith::Token;

/// The tokens, the last of which is the end. What is no token is told of and left out.
std::vector<Token> tokenize(const std::string &text, std::vector<Message> &messages,
                            std::vector<Comment> *comments = nullptr, uint32_t file = 0);

} // namespace tensmith::text
