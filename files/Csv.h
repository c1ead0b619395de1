// Tables as text: comma-separated values (RFC 4180), and the same with tabs.
//
// A field that has the delimiter, quotes or line breaks in it is quoted as a whole, and its own
// quotes are written twice. Rows end with LF, CR LF or CR; the last need not. A blank line is no
// row, and blanks around a field are none of it, unless they are quoted. A byte order mark before
// the first field is dropped. What fields mean, whoever reads the table says.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace tensmith {

/// A row's fields, which the receiver may take.
using CsvRow = std::vector<std::string>;

/// What is wrong with the text, "row 2: ..." where rows count from 1 behind the heading; empty
/// where nothing is. `take` is given each row, the heading first, until it returns false, which is
/// no error.
[[nodiscard]] std::string readCsv(std::string_view text, char delimiter,
                                  const std::function<bool(CsvRow &)> &take);

} // namespace tensmith
