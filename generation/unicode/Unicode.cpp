// Loading the library that knows Unicode, and UTF-8 itself; see Unicode.h.
#include "generation/unicode/Unicode.h"

#include "files/Failure.h"
#include "generation/serving/TextPieces.h"
#include "train/BesideRuntime.h"

#include <algorithm>
#include <dlfcn.h>

namespace tensmith::generation {

const Unicode &unicode() {
  static const Unicode *const kLoaded = [] {
    std::string path = train::besideRuntime("libtensmith_unicode.so");
    void *library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library)
      throw Failure(std::string("this tokenizer needs libtensmith_unicode.so, which is built where "
                                "ICU is (libicu-dev): ") +
                    ::dlerror());
    auto open = reinterpret_cast<OpenUnicode>(::dlsym(library, kOpenUnicode));
    if (!open)
      throw Failure("libtensmith_unicode.so is of another version than this program");
    const Unicode *found = open();
    if (!found)
      throw Failure("ICU has no data of its own (libicu), which tokenizers need");
    return found;
  }();
  return *kLoaded;
}

ReadCharacter readCharacter(std::string_view text) {
  auto byte = [&](size_t i) { return uint32_t(uint8_t(text[i])); };
  uint32_t first = byte(0);
  size_t bytes = first < 0xc0 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (bytes == 1 || bytes > text.size())
    return {first, 1};
  uint32_t code = first & (0xffu >> (bytes + 1));
  for (size_t i = 1; i < bytes; ++i)
    code = code << 6 | (byte(i) & 63);
  return {code, bytes};
}

void appendCharacter(std::string &to, uint32_t code) {
  if (code < 0x80) {
    to += char(code);
    return;
  }
  size_t more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  uint32_t lead = more == 1 ? 0xc0 : more == 2 ? 0xe0 : 0xf0;
  to += char(lead | code >> (6 * more));
  while (more--)
    to += char(0x80 | (code >> (6 * more) & 63));
}

std::string validUtf8(std::string_view text) {
  TextPieces pieces({});
  std::string result = pieces.add(text);
  return result + pieces.finish();
}

} // namespace tensmith::generation
