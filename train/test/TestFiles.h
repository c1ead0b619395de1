// Files that the tests make, and what refuses them.
#pragma once

#include "files/Failure.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <unistd.h>

namespace tensmith::train {

/// A folder of the test's own, gone after it.
class TestFolder {
public:
  TestFolder() {
    std::string pattern = testing::TempDir() + "train-XXXXXX";
    path_ = ::mkdtemp(pattern.data());
  }
  ~TestFolder() {
    std::error_code none;
    std::filesystem::remove_all(path_, none);
  }
  std::string operator/(const std::string &name) const { return path_ + "/" + name; }
  std::string write(const std::string &name, const std::string &bytes) const {
    std::filesystem::create_directories(std::filesystem::path(*this / name).parent_path());
    std::ofstream(*this / name, std::ios::binary) << bytes;
    return *this / name;
  }
  const std::string &path() const { return path_; }

private:
  std::string path_;
};

inline std::string contentsOf(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// What the failure says; "" where there is none.
template <typename Work> std::string refusal(Work work) {
  try {
    work();
    return "";
  } catch (const Failure &failure) {
    return failure.what();
  }
}

#define EXPECT_HAS(text, part) EXPECT_NE((text).find(part), std::string::npos) << (text)

} // namespace tensmith::train
