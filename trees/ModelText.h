// JSON and UBJSON of model files, read with limits and written with types.
//
// UBJSON can say "an array of 2^60 nulls" in a dozen bytes, and both can nest until a stack ends.
// So a document has no more values than bytes, and no more than kMostNesting levels. XGBoost asks
// for arrays of certain types (Universal Binary JSON, draft 12, "optimized format"): whoever writes
// says of which type the numbers under a key are.
#pragma once

#include "base/Status.h"

#include <nlohmann/json_fwd.hpp>

#include <span>
#include <string>

namespace tensmith::trees {

/// Members are found in logarithmic time, however many a hostile object has.
using Document = nlohmann::json;

inline constexpr int kMostNesting = 32;

/// InvalidModel where the text is none, or past the limits; says at which byte.
Result<Document> readJson(std::string_view text);
Result<Document> readUbjson(std::string_view bytes);

/// The element type of the array under `key`: 'd' f32, 'l' i32, 'L' i64, 'U' u8; 0 where values
/// have a type each.
using ElementTypeOf = char (*)(std::string_view key);
std::string writeUbjson(const Document &document, ElementTypeOf elementTypeOf);

} // namespace tensmith::trees
