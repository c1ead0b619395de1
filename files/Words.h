// Words of users and files, in messages and pages.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tensmith {

/// Safe to print: control characters of names from files are escaped.
std::string printable(std::string_view text);
/// Safe in HTML, as text and as an attribute.
std::string escaped(std::string_view text);
/// The nearest of the names, if one is near enough to be what was meant.
std::optional<std::string> nearest(const std::string &name, const std::vector<std::string> &names);
/// "; did you mean 'name'?", or nothing.
std::string suggestion(const std::string &word, const std::vector<std::string> &names);

} // namespace tensmith
