// A document built from a parser's events, within limits; see ModelText.h.
#include "trees/ModelText.h"

#include <bit>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace tensmith::trees {
namespace {

/// nlohmann's interface of events; false ends the parse.
class LimitedBuilder : public nlohmann::json_sax<Document> {
public:
  explicit LimitedBuilder(size_t most) : left_(most) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t &) override { return add(value); }
  bool string(string_t &value) override { return add(std::move(value)); }
  bool binary(binary_t &) override { return refuse("has binary data, which models have none of"); }
  bool start_object(size_t) override { return open(Document::object()); }
  bool start_array(size_t) override { return open(Document::array()); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t &value) override {
    key_ = std::move(value);
    return true;
  }
  bool parse_error(size_t position, const std::string &,
                   const nlohmann::json::exception &) override {
    return refuse(fmt::format("is damaged or cut off at byte {}", position));
  }

  Result<Document> result() && {
    if (problem_.empty() && open_.empty() && !root_.is_discarded())
      return std::move(root_);
    return Status(StatusCode::InvalidModel, problem_.empty() ? "is damaged" : problem_);
  }

private:
  bool refuse(std::string why) {
    if (problem_.empty())
      problem_ = std::move(why);
    return false;
  }
  Document *place(Document value) {
    if (open_.empty())
      return &(root_ = std::move(value));
    Document &parent = *open_.back();
    if (parent.is_array())
      return &parent.emplace_back(std::move(value));
    return &(parent[key_] = std::move(value));
  }
  bool add(Document value) {
    if (left_-- == 0)
      return refuse("has more values than bytes");
    place(std::move(value));
    return true;
  }
  bool open(Document container) {
    if (left_-- == 0)
      return refuse("has more values than bytes");
    if (open_.size() >= size_t(kMostNesting))
      return refuse(fmt::format("is nested more than {} levels", kMostNesting));
    open_.push_back(place(std::move(container)));
    return true;
  }
  bool close() {
    open_.pop_back();
    return true;
  }

  size_t left_;
  Document root_ = Document(Document::value_t::discarded);
  // Of elements of arrays that may grow only once an inner one is closed: none moves while open.
  std::vector<Document *> open_;
  std::string key_, problem_;
};

Result<Document> parse(std::string_view text, Document::input_format_t format) {
  LimitedBuilder builder(text.size());
  try {
    Document::sax_parse(text.begin(), text.end(), &builder, format);
  } catch (const Document::exception &error) {
    return Status(StatusCode::InvalidModel, std::string("is damaged: ") + error.what());
  }
  return std::move(builder).result();
}

class UbjsonWriter {
public:
  explicit UbjsonWriter(ElementTypeOf elementTypeOf) : elementTypeOf_(elementTypeOf) {}

  void write(const Document &value, std::string_view key) {
    if (value.is_object())
      return writeObject(value);
    if (value.is_array())
      return writeArray(value, elementTypeOf_(key));
    if (value.is_string()) {
      const auto &text = value.get_ref<const std::string &>();
      out_ += 'S';
      writeLength(text.size());
      out_ += text;
    } else if (value.is_boolean() || value.is_null()) {
      out_ += value.is_null() ? 'Z' : value.get<bool>() ? 'T' : 'F';
    } else {
      char type = value.is_number_float() ? 'd' : 'L';
      out_ += type;
      writeNumber(value, type);
    }
  }
  std::string take() && { return std::move(out_); }

private:
  void writeObject(const Document &value) {
    out_ += '{';
    for (const auto &[key, member] : value.items()) {
      writeLength(key.size());
      out_ += key;
      write(member, key);
    }
    out_ += '}';
  }
  void writeArray(const Document &value, char type) {
    out_ += '[';
    if (type) {
      out_ += '$';
      out_ += type;
    }
    out_ += '#';
    writeLength(value.size());
    for (const Document &element : value)
      type ? writeNumber(element, type) : write(element, "");
  }
  void writeLength(size_t length) {
    out_ += 'L';
    writeBits(uint64_t(length));
  }
  void writeNumber(const Document &value, char type) {
    if (type == 'd')
      writeBits(std::bit_cast<uint32_t>(value.get<float>()));
    else if (type == 'l')
      writeBits(uint32_t(value.get<int64_t>()));
    else if (type == 'U')
      writeBits(uint8_t(value.get<int64_t>()));
    else
      writeBits(uint64_t(value.get<int64_t>()));
  }
  /// The most significant byte first.
  template <typename Unsigned> void writeBits(Unsigned bits) {
    for (int shift = int(sizeof bits) * 8 - 8; shift >= 0; shift -= 8)
      out_ += char(uint8_t(bits >> shift));
  }

  ElementTypeOf elementTypeOf_;
  std::string out_;
};

} // namespace

Result<Document> readJson(std::string_view text) {
  return parse(text, Document::input_format_t::json);
}
Result<Document> readUbjson(std::string_view bytes) {
  return parse(bytes, Document::input_format_t::ubjson);
}

std::string writeUbjson(const Document &document, ElementTypeOf elementTypeOf) {
  UbjsonWriter writer(elementTypeOf);
  writer.write(document, "");
  return std::move(writer).take();
}

} // namespace tensmith::trees
