// Writes a small module of one input `x` of any size and the output `y`, for tests of other
// programs: `runtime_test_module PATH`.
#include "TestModule.h"

#include <fstream>

int main(int argc, char **argv) {
  if (argc != 2)
    return 2;
  auto file = tensmith::runtime::test::addModule(0, {});
  std::ofstream stream(argv[1], std::ios::binary);
  stream.write(reinterpret_cast<const char *>(file.data()), long(file.size()));
  return stream.good() ? 0 : 1;
}
