// Whether this CPU has what a module's code was compiled for, by LLVM's names of features ("avx2").
//
// A feature counts only if the operating system keeps its registers, too: code that uses a vector
// register that is not saved would fault or compute garbage.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tensmith::runtime {

enum class FeatureState { Present, Absent, Unknown };

FeatureState cpuFeature(std::string_view llvmName);

/// The features of this CPU, by LLVM's names, sorted.
std::vector<std::string> cpuFeatures();

} // namespace tensmith::runtime
