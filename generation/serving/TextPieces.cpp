// Pieces of a text; see TextPieces.h.
#include "generation/serving/TextPieces.h"

#include <algorithm>

namespace tensmith::generation {
namespace {

enum class State { Whole, Begun, Wrong };
struct Character {
  size_t bytes;
  State state;
};

/// The character that begins there, by its definition (Unicode, table 3-7), or what of one there
/// is.
Character characterAt(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char lead = byte(0);
  if (lead < 0x80)
    return {1, State::Whole};
  size_t size = lead < 0xc2 ? 0 : lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : lead < 0xf5 ? 4 : 0;
  if (!size)
    return {1, State::Wrong};
  unsigned char low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  unsigned char high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  for (size_t i = 1; i < size; ++i, low = 0x80, high = 0xbf) {
    if (i >= text.size())
      return {i, State::Begun};
    if (byte(i) < low || byte(i) > high)
      return {i, State::Wrong};
  }
  return {size, State::Whole};
}

/// With U+FFFD for what is no character. What is not all there at the end is left out, or, if that
/// `isAll`, is none; `used` says how much was read.
std::string characters(std::string_view text, bool isAll, size_t &used) {
  std::string result;
  for (used = 0; used < text.size();) {
    Character next = characterAt(text.substr(used));
    if (next.state == State::Begun && !isAll)
      break;
    if (next.state == State::Whole)
      result += text.substr(used, next.bytes);
    else
      result += "\xef\xbf\xbd";
    used += next.bytes;
  }
  return result;
}

} // namespace

/// Bytes that no stop sequence begins in.
size_t TextPieces::certain() const {
  for (size_t at = 0; at < held_.size(); ++at) {
    std::string_view rest = std::string_view(held_).substr(at);
    if (std::ranges::any_of(stops_, [&](const std::string &stop) {
          return std::string_view(stop).starts_with(rest.substr(0, stop.size()));
        }))
      return at;
  }
  return held_.size();
}

std::string TextPieces::add(std::string_view bytes) {
  if (isStopped_)
    return "";
  held_ += bytes;
  // The one that is complete first; of several, the longest.
  size_t end = std::string::npos, complete = std::string::npos;
  for (const std::string &stop : stops_)
    if (size_t at = held_.find(stop); at != std::string::npos)
      if (std::pair(at + stop.size(), at) < std::pair(complete, end))
        complete = at + stop.size(), end = at;
  isStopped_ = end != std::string::npos;
  if (isStopped_)
    held_.resize(end);
  size_t used = 0;
  std::string piece =
      characters(std::string_view(held_).substr(0, isStopped_ ? end : certain()), isStopped_, used);
  held_.erase(0, used);
  return piece;
}

std::string TextPieces::finish() {
  size_t used = 0;
  std::string rest = characters(held_, true, used);
  held_.clear();
  return rest;
}

} // namespace tensmith::generation
