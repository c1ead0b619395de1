// nest-text NAME FILE: a nest of Programs.h after the schedule text in FILE: the loops by name, the
// schedule tree, and the loops that are emitted. Lines that begin with // are left out of the text.
#include "compiler/nest/NestKernel.h"
#include "compiler/nest/test/Programs.h"

#include <cstdio>
#include <fstream>

using namespace tensmith;
using namespace tensmith::nest;

static int fail(const std::string &message) {
  std::fprintf(stderr, "nest-text: %s\n", message.c_str());
  return 1;
}

int main(int argc, char **argv) {
  if (argc != 3)
    return fail("usage: nest-text NAME FILE");
  std::optional<Nest> nest;
  for (Nest &each : test::namedPrograms())
    if (each.name == argv[1])
      nest = std::move(each);
  if (!nest)
    return fail("there is no nest '" + std::string(argv[1]) + "'");
  std::ifstream file(argv[2]);
  std::string text;
  for (std::string line; std::getline(file, line);)
    text += (line.starts_with("//") ? "" : line) + "\n";
  auto schedule = Schedule::of(*nest);
  if (!schedule)
    return fail(schedule.status().message());
  if (Status status = schedule->apply(text); !status.ok())
    return fail(status.message());
  auto loops = loopText(*schedule);
  if (!loops)
    return fail(loops.status().message());
  std::printf("%s\n%s\n%s", schedule->outline().c_str(), schedule->tree().c_str(), loops->c_str());
  return 0;
}
