// A text that comes token by token, in pieces that can be sent: whole characters, and nothing of a
// text that ends it (a stop sequence), nor what may become one.
//
// Bytes that are no UTF-8 become U+FFFD, as they do in the whole text. Together the pieces are the
// same however the bytes come.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tensmith::generation {

class TextPieces {
public:
  explicit TextPieces(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  /// What can be sent now. After a stop there is nothing more.
  std::string add(std::string_view bytes);
  /// The rest.
  std::string finish();
  bool isStopped() const { return isStopped_; }

private:
  size_t certain() const;

  std::vector<std::string> stops_;
  std::string held_;
  bool isStopped_ = false;
};

} // namespace tensmith::generation
