// Which libraries there are, by opening each as the programs do.
#include "client/Compiler.h"
#include "tools/tensmith/Report.h"
#include "tools/tensmith/doctor/Findings.h"
#include "train/BesideRuntime.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <memory>
#include <unistd.h>

namespace tensmith::cli::doctor {
namespace {

struct Companion {
  const char *library, *purpose, *advice;
};
constexpr Companion kCompanions[] = {
    {"libtensmith_expressions.so", "regular expressions (StringSplit, RegexFullMatch, ...)",
     "models that match expressions fail without it; install it beside the runtime"},
    {"libtensmith_pictures.so", "pictures within a model (ImageDecoder)",
     "models that decode pictures fail without it; install it beside the runtime"},
    {"libtensmith_mpi.so", "training on several processes",
     "needed by `mpirun ... tensmith train` alone; build with MPI (Debian: libopenmpi-dev)"},
    {"libtensmith_parquet.so", "training data in Parquet",
     "needed by Parquet tables alone; build where Arrow 24 or newer, or pyarrow, is"},
    {"libtensmith_onednn.so", "operators by oneDNN (--libraries onednn)",
     "needed by --libraries onednn alone; build with -DTENSMITH_ONEDNN=ON"},
    {"libtensmith_openblas.so", "products by OpenBLAS (--libraries openblas)",
     "needed by --libraries openblas alone; build with -DTENSMITH_OPENBLAS=ON"},
    {"libtensmith_xsmm.so", "products by libxsmm (--libraries xsmm)",
     "needed by --libraries xsmm alone; build with -DTENSMITH_XSMM=ON"},
};

void examineCompiler(Section &section) {
  try {
    Json facts = client::parseJson(client::describeCompiler(), "the compiler's library");
    std::string version = facts["version"];
    section.fine("compiler", version + " in " + client::compilerPath());
    section.fine("LLVM", facts["llvm"].get<std::string>());
    if (version != TENSMITH_VERSION_TEXT)
      section.problem("compiler", "is version " + version,
                      "the program is version " TENSMITH_VERSION_TEXT "; install both of one");
  } catch (const std::exception &error) {
    section.problem("compiler", error.what(),
                    "only modules that are compiled already can be run; install the compiler, or "
                    "check LD_LIBRARY_PATH");
  }
}

void examineCompanion(Section &section, const Companion &companion) {
  std::string path = train::besideRuntime(companion.library);
  if (::access(path.c_str(), F_OK) != 0)
    return section.note(companion.library, std::string("not there: ") + companion.purpose,
                        companion.advice);
  void *library = ::dlopen(path.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (!library) {
    const char *why = ::dlerror();
    return section.problem(companion.library, why ? why : "can't be opened",
                           "install the library that it names, or build Tensmith again");
  }
  ::dlclose(library);
  section.fine(companion.library, companion.purpose);
}

/// The first line that the command prints, if it ends well.
std::string firstLineOf(const char *command) {
  std::unique_ptr<FILE, decltype(&::pclose)> pipe(::popen(command, "r"), &::pclose);
  char line[4096] = "";
  bool read = pipe && std::fgets(line, sizeof line, pipe.get());
  if (!pipe || ::pclose(pipe.release()) != 0 || !read)
    return {};
  std::string text = line;
  return text.substr(0, text.find('\n'));
}

} // namespace

void examineInstallation(Section section) {
  section.fine("program", TENSMITH_VERSION_TEXT);
  std::string runtime = ts_version();
  if (runtime == TENSMITH_VERSION_TEXT)
    section.fine("runtime", runtime + " in " + train::besideRuntime("libtensmith_runtime.so.0"));
  else
    section.problem("runtime", "is version " + runtime,
                    "the program is version " TENSMITH_VERSION_TEXT "; install both of one");
  examineCompiler(section);
  for (const Companion &companion : kCompanions)
    examineCompanion(section, companion);
  std::string mpi = firstLineOf("timeout 10 mpirun --version 2>/dev/null");
  if (mpi.empty())
    section.note("mpirun", "not there",
                 "needed to train on several processes (Debian: openmpi-bin)");
  else
    section.fine("mpirun", mpi);
}

void examinePython(Section section) {
  std::string python = firstLineOf("timeout 10 python3 -c 'import sys; "
                                   "print(sys.version.split()[0], sys.executable)' 2>/dev/null");
  if (python.empty())
    return section.note("python3", "not there", "needed by the Python package alone");
  section.fine("python3", python);
  std::string package = firstLineOf(
      "timeout 20 python3 -c 'import tensmith; print(tensmith.__version__, tensmith.__file__)' "
      "2>/dev/null");
  if (package.empty())
    return section.note("package", "this python3 can't import tensmith",
                        "pip install tensmith, in the environment that is used");
  if (package.starts_with(TENSMITH_VERSION_TEXT " "))
    return section.fine("package", package);
  section.problem("package", package,
                  "the program is version " TENSMITH_VERSION_TEXT "; install both of one");
}

} // namespace tensmith::cli::doctor
