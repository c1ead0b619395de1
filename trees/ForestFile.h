// Forests in files: the format of our own, and which of all formats a file has.
//
// Ours is for forests as they are: each number in its own bits, names and classes included, small,
// quick to load, and damage is noticed. JSON would be four times as large, and ONNX has no place
// for gains, covers and rounds.
//
//   "tsforest"            8 bytes
//   version               u32, 2 (1 has no names of categories and classes, and is read, too); a
//                         reader refuses what is newer
//   length of the header  u32
//   length of the arrays  u64, compressed
//   hash                  128 bits, of all that follows
//   header                JSON: objective, features, base scores, classes, trees' sizes, ...
//   arrays                zstd: each array of Tree, of all trees one after the other
//
// Numbers are little-endian. Arrays of one kind lie together, since they compress better so. The
// header says how long the arrays are once they are unpacked, and that is held to kMostGrowth times
// the file's size before any memory is taken.
#pragma once

#include "trees/Forest.h"

#include "base/Status.h"

#include <optional>
#include <string>
#include <string_view>

namespace tensmith::trees {

std::string writeForest(const Forest &forest);
/// InvalidModel where the file is damaged, Unsupported where a later version has written it.
Result<Forest> readForest(std::string_view bytes);

enum class FileFormat { Own, XgboostJson, XgboostUbjson, Lightgbm, Onnx };
/// "forest", "json", "ubj", "lightgbm", "onnx".
std::optional<FileFormat> formatNamed(std::string_view name);
/// By the path's ending; what has none of another format is ours.
FileFormat formatFor(std::string_view path);

/// In any format, which the contents tell.
Result<Forest> parseForest(std::string_view bytes);
Result<Forest> loadForest(const std::string &path);
/// Unsupported where the format has no place for the forest, or (LightGBM's) is only read.
Result<std::string> formatForest(const Forest &forest, FileFormat format);
/// Written beside and renamed.
Status saveForest(const Forest &forest, const std::string &path,
                  std::optional<FileFormat> format = {});

} // namespace tensmith::trees
