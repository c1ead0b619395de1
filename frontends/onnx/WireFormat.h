// A look at a model's bytes before protobuf parses them.
//
// Protobuf says only that a file did not parse, recurses for each level of nesting, and copies
// every weight. This walk needs no recursion: it tells truncation from nesting that is too deep,
// and finds where the weights lie so that they can stay there.
//
// The encoding: https://protobuf.dev/programming-guides/encoding/
#pragma once

#include "base/Status.h"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace tensmith::onnx_import {

/// Where the bytes of an initialiser of the main graph lie in the file.
struct RawData {
  size_t offset = 0, size = 0;
};

/// Subgraphs nested no deeper than `maxNesting`, and every length within its message.
Status checkWireFormat(std::span<const std::byte> bytes, int maxNesting);

/// The model without the raw_data of its main graph's initialisers that have at least `least`
/// bytes. `removed` has one entry for each initialiser in order; its size is 0 where the data
/// stayed.
std::string withoutRawData(std::span<const std::byte> bytes, size_t least,
                           std::vector<RawData> &removed);

} // namespace tensmith::onnx_import
