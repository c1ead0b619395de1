// Contexts in front of a message, each of them once; see Status.h.
#include "base/Status.h"

namespace tensmith {
namespace {

constexpr std::string_view kColon = ": ";

/// Without the part in front, if it begins with that.
bool drop(std::string_view &message, std::string_view part) {
  if (!message.starts_with(part) || !message.substr(part.size()).starts_with(kColon))
    return false;
  message.remove_prefix(part.size() + kColon.size());
  return true;
}

/// The message without what it has of the context: the beginning ("m.onnx" of "m.onnx: node 'a'"),
/// the end ("node 'a'"), or all.
std::string_view withoutContext(std::string_view message, std::string_view context) {
  for (size_t end = context.size(); end != std::string_view::npos && end > 0;
       end = context.rfind(kColon, end - 1))
    if (drop(message, context.substr(0, end)))
      break;
  for (size_t begin = context.find(kColon); begin != std::string_view::npos;
       begin = context.find(kColon, begin + 1))
    if (drop(message, context.substr(begin + kColon.size())))
      break;
  return message;
}

} // namespace

Status Status::within(std::string_view context) const {
  // "program.tsm:3:5: ..." says more than the file's name.
  if (ok() || context.empty() ||
      (message_.starts_with(context) && message_.substr(context.size()).starts_with(":")))
    return *this;
  return {code_, std::string(context).append(kColon).append(withoutContext(message_, context))};
}

} // namespace tensmith
