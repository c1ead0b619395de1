// Walks protobuf's wire format with a stack of its own; see WireFormat.h.
#include "frontends/onnx/WireFormat.h"

#include <algorithm>
#include <optional>

namespace tensmith::onnx_import {
namespace {

// The messages on the way to nested graphs, and the numbers of their fields (onnx-ml.proto).
enum class Message { Model, Graph, Node, Attribute, Function, Tensor, Other };

Message fieldMessage(Message parent, uint32_t field) {
  switch (parent) {
  case Message::Model:
    return field == 7 ? Message::Graph : field == 25 ? Message::Function : Message::Other;
  case Message::Graph:
    return field == 1 ? Message::Node : field == 5 ? Message::Tensor : Message::Other;
  case Message::Function:
    return field == 7 ? Message::Node : field == 11 ? Message::Attribute : Message::Other;
  case Message::Node:
    return field == 5 ? Message::Attribute : Message::Other;
  case Message::Attribute:
    return field == 6 || field == 11 ? Message::Graph : Message::Other;
  default:
    return Message::Other;
  }
}

constexpr uint32_t kRawDataField = 9, kInitializerField = 5, kGraphField = 7;

/// One field: its number, its kind, and where its payload lies.
struct Field {
  uint32_t number = 0;
  int wireType = 0;
  size_t start = 0;   // of the tag
  size_t payload = 0; // after the length, if there is one
  size_t end = 0;
  bool isMessage() const { return wireType == 2; }
};

class Reader {
public:
  explicit Reader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  /// The field at `at`, which ends before `limit`; nothing where it does not.
  std::optional<Field> field(size_t at, size_t limit) const {
    Field result;
    result.start = at;
    auto tag = varint(at, limit);
    if (!tag || *tag >> 3 == 0 || *tag >> 32)
      return std::nullopt;
    result.number = uint32_t(*tag >> 3);
    result.wireType = int(*tag & 7);
    uint64_t size = 0;
    switch (result.wireType) {
    case 0:
      result.payload = at;
      if (!varint(at, limit))
        return std::nullopt;
      result.end = at;
      return result;
    case 1:
      size = 8;
      break;
    case 5:
      size = 4;
      break;
    case 2: {
      auto length = varint(at, limit);
      if (!length)
        return std::nullopt;
      size = *length;
      break;
    }
    default: // groups, which ONNX does not use
      return std::nullopt;
    }
    if (size > limit - at)
      return std::nullopt;
    result.payload = at;
    result.end = at + size_t(size);
    return result;
  }

  void append(std::string &out, size_t from, size_t to) const {
    out.append(reinterpret_cast<const char *>(bytes_.data()) + from, to - from);
  }

private:
  std::optional<uint64_t> varint(size_t &at, size_t limit) const {
    uint64_t value = 0;
    for (int shift = 0; shift < 64 && at < limit; shift += 7) {
      uint8_t byte = uint8_t(bytes_[at++]);
      value |= uint64_t(byte & 127) << shift;
      if (byte < 128)
        return value;
    }
    return std::nullopt;
  }

  std::span<const std::byte> bytes_;
};

void appendVarint(std::string &out, uint64_t value) {
  for (; value >= 128; value >>= 7)
    out.push_back(char(value & 127 | 128));
  out.push_back(char(value));
}

void appendMessage(std::string &out, uint32_t field, const std::string &payload) {
  appendVarint(out, uint64_t(field) << 3 | 2);
  appendVarint(out, payload.size());
  out += payload;
}

/// A tensor's fields but its raw data, if that has at least `least` bytes.
std::string strippedTensor(const Reader &reader, const Field &tensor, size_t least, RawData &raw) {
  std::string result;
  for (size_t at = tensor.payload; at < tensor.end;) {
    auto field = reader.field(at, tensor.end);
    if (!field)
      break;
    if (field->number == kRawDataField && field->isMessage() &&
        field->end - field->payload >= least)
      raw = {field->payload, field->end - field->payload};
    else
      reader.append(result, field->start, field->end);
    at = field->end;
  }
  return result;
}

std::string strippedGraph(const Reader &reader, const Field &graph, size_t least,
                          std::vector<RawData> &removed) {
  std::string result;
  for (size_t at = graph.payload; at < graph.end;) {
    auto field = reader.field(at, graph.end);
    if (!field)
      break;
    if (field->number == kInitializerField && field->isMessage())
      appendMessage(result, kInitializerField,
                    strippedTensor(reader, *field, least, removed.emplace_back()));
    else
      reader.append(result, field->start, field->end);
    at = field->end;
  }
  return result;
}

Status truncated(size_t at, size_t size) {
  return {StatusCode::InvalidModel, "is truncated or no ONNX model: the field at byte " +
                                        std::to_string(at) + " of " + std::to_string(size) +
                                        " does not end within its message"};
}

} // namespace

Status checkWireFormat(std::span<const std::byte> bytes, int maxNesting) {
  struct Open {
    Message kind;
    size_t at, end;
    int depth;
  };
  Reader reader(bytes);
  std::vector<Open> stack{{Message::Model, 0, bytes.size(), 0}};
  while (!stack.empty()) {
    Open &top = stack.back();
    if (top.at == top.end) {
      stack.pop_back();
      continue;
    }
    auto field = reader.field(top.at, top.end);
    if (!field)
      return truncated(top.at, bytes.size());
    top.at = field->end;
    Message kind = field->isMessage() ? fieldMessage(top.kind, field->number) : Message::Other;
    if (kind == Message::Other || kind == Message::Tensor)
      continue;
    int depth = top.depth + (kind == Message::Graph || kind == Message::Function);
    if (depth > maxNesting)
      return {StatusCode::InvalidModel, "has subgraphs nested more than " +
                                            std::to_string(maxNesting) +
                                            " deep, which is the limit"};
    stack.push_back({kind, field->payload, field->end, depth});
  }
  return {};
}

std::string withoutRawData(std::span<const std::byte> bytes, size_t least,
                           std::vector<RawData> &removed) {
  Reader reader(bytes);
  std::string result;
  removed.clear();
  for (size_t at = 0; at < bytes.size();) {
    auto field = reader.field(at, bytes.size());
    if (!field)
      break;
    if (field->number == kGraphField && field->isMessage())
      appendMessage(result, kGraphField, strippedGraph(reader, *field, least, removed));
    else
      reader.append(result, field->start, field->end);
    at = field->end;
  }
  return result;
}

} // namespace tensmith::onnx_import
