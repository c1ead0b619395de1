// JSON from outside, read so that nothing done with it later needs much stack or time: values are
// nested to a bound, and objects, whose keys stay in order and are looked for one by one, have a
// bound of those.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace tensmith::generation {

using Json = nlohmann::ordered_json;

/// Throws Failure that says what is wrong with the text.
Json boundedJson(const std::string &text);

} // namespace tensmith::generation
