// Writing JSON, and nothing else: text grows from the front, commas are kept track of.
//
// A library for it would be a good part of the runtime's size.
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace tensmith::runtime {

class JsonWriter {
public:
  JsonWriter &open(char bracket) {
    separate();
    text_ += bracket;
    first_ = true;
    return *this;
  }
  JsonWriter &close(char bracket) {
    text_ += bracket;
    first_ = false;
    return *this;
  }
  JsonWriter &key(std::string_view name) {
    value(name);
    text_ += ':';
    first_ = true;
    return *this;
  }
  JsonWriter &value(int64_t number) { return raw(std::to_string(number)); }
  JsonWriter &null() { return raw("null"); }
  JsonWriter &value(std::string_view string) {
    separate();
    text_ += '"';
    for (char c : string)
      escape(c);
    text_ += '"';
    return *this;
  }
  /// What is JSON already.
  JsonWriter &raw(std::string_view text) {
    separate();
    text_ += text;
    return *this;
  }
  std::string take() { return std::move(text_); }

private:
  void separate() {
    if (!first_)
      text_ += ',';
    first_ = false;
  }
  void escape(char c) {
    if (c == '"' || c == '\\')
      text_ += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) {
      text_ += c;
      return;
    }
    char code[8];
    std::snprintf(code, sizeof(code), "\\u%04x", unsigned(static_cast<unsigned char>(c)));
    text_ += code;
  }

  std::string text_;
  bool first_ = true;
};

} // namespace tensmith::runtime
